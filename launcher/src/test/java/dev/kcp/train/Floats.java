package dev.kcp.train;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.ValueLayout;
import java.util.Random;

/** Native FP32 numbers for tests. */
public final class Floats implements AutoCloseable {
    private final Tensor tensor;

    public Floats(int elements) {
        tensor = Tensor.zeros(DType.F32, elements);
    }

    public static Floats of(float... values) {
        Floats floats = new Floats(values.length);
        for (int i = 0; i < values.length; i++) {
            floats.set(i, values[i]);
        }
        return floats;
    }

    public static Floats random(int elements, Random random) {
        Floats floats = new Floats(elements);
        for (int i = 0; i < elements; i++) {
            floats.set(i, (float) random.nextGaussian());
        }
        return floats;
    }

    public long address() {
        return tensor.address();
    }

    public int elements() {
        return (int) tensor.elements();
    }

    public float get(int element) {
        return HostMemory.ALL.get(ValueLayout.JAVA_FLOAT, tensor.address() + 4L * element);
    }

    public void set(int element, float value) {
        HostMemory.ALL.set(ValueLayout.JAVA_FLOAT, tensor.address() + 4L * element, value);
    }

    public double[] toDoubles() {
        double[] values = new double[elements()];
        for (int i = 0; i < values.length; i++) {
            values[i] = get(i);
        }
        return values;
    }

    @Override
    public void close() {
        tensor.close();
    }
}
