package dev.kcp.train;

import dev.kcp.core.KcpContext;

/**
 * What every layer of one step works with.
 *
 * @param engine the device's programs
 * @param context partition and communicator of this step's batch
 * @param tiles this rank's rows
 * @param activations buffers with room for that many rows
 * @param weights the parameters
 * @param sums this rank's gradients of dense parameters
 * @param gradients gradients of taps and biases, summed over the group
 * @param probe looks at what convolutions wrote
 */
record StepState(
        TrainEngine engine,
        KcpContext context,
        Tiles tiles,
        Activations activations,
        Weights weights,
        StepSums sums,
        ParameterBuffer gradients,
        ConvProbe probe) {}
