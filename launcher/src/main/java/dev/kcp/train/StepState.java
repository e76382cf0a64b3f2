package dev.kcp.train;

import dev.kcp.core.KcpContext;

/**
 * What every layer of one step works with.
 *
 * @param context partition and communicator of this step's batch
 * @param rows local tokens of this rank
 * @param activations buffers with room for that many rows
 * @param values the parameters
 * @param gradients gradients of the parameters, added up over the step
 * @param gemm matrix products
 */
record StepState(
        KcpContext context,
        int rows,
        Activations activations,
        ParameterBuffer values,
        ParameterBuffer gradients,
        Gemm gemm) {}
