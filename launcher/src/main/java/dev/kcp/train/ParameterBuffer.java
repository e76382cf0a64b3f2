package dev.kcp.train;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;

/** One FP32 number per parameter element, in the table's order: values, gradients, or a moment of the optimizer. */
public final class ParameterBuffer implements AutoCloseable {
    private final ParameterTable table;
    private final Memory memory;

    /** A buffer of zeros. */
    public ParameterBuffer(ParameterTable table) {
        this.table = table;
        this.memory = Memory.allocateHost(table.bufferElements() * Float.BYTES);
    }

    public ParameterTable table() {
        return table;
    }

    /** The first parameter's address. */
    public long address() {
        return memory.address();
    }

    /** The parameter's address. */
    public long address(Parameter parameter) {
        return memory.address() + parameter.offsetBytes();
    }

    /** The parameter as a borrowed tensor, {@code [rows, columns]} or, for a vector, {@code [columns]}. */
    public Tensor tensor(Parameter parameter) {
        return parameter.rows() == 1
                ? Tensor.over(memory, parameter.offsetBytes(), DType.F32, parameter.columns())
                : Tensor.over(memory, parameter.offsetBytes(), DType.F32, parameter.rows(), parameter.columns());
    }

    void zero() {
        HostMemory.zero(memory.address(), memory.bytes());
    }

    @Override
    public void close() {
        memory.close();
    }
}
