package dev.kcp.train;

import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;

/** The parameters' values: FP32 for the optimizer and vectors, and matrices in the type that products read. */
public final class Weights implements AutoCloseable {
    private final TrainEngine engine;
    private final ParameterBuffer values;
    private final ParameterBuffer forProducts;

    /** Zeros on the engine's device. */
    Weights(TrainEngine engine, ParameterTable table) {
        this.engine = engine;
        values = new ParameterBuffer(engine, DType.F32, table);
        forProducts = engine.activationType() == DType.F32
                ? values
                : new ParameterBuffer(engine, engine.activationType(), table);
    }

    /** FP32 values. */
    public ParameterBuffer values() {
        return values;
    }

    /** Values in the engine's activation type; the same buffer as {@link #values} where that is FP32. */
    public ParameterBuffer forProducts() {
        return forProducts;
    }

    /** A vector or the taps, FP32. */
    Tensor vector(Parameter parameter) {
        return values.tensor(parameter);
    }

    /** A matrix as products read it. */
    Tensor matrix(Parameter parameter) {
        return forProducts.tensor(parameter);
    }

    /** Takes values from host memory. */
    void load(ParameterBuffer host) {
        engine.write(values.flat(), host.flat().segment());
        if (forProducts != values) {
            engine.copy(values.flat(), forProducts.flat());
        }
    }

    @Override
    public void close() {
        CloseStack.closeAll(values, forProducts == values ? null : forProducts);
    }
}
