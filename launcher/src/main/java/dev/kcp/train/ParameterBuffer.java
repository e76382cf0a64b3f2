package dev.kcp.train;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;

/** One number per parameter element, in the table's order: values, gradients, or a moment of the optimizer. */
public final class ParameterBuffer implements AutoCloseable {
    private final ParameterTable table;
    private final Tensor flat;
    private final Memory memory;

    /** A buffer of FP32 zeros in host memory. */
    public ParameterBuffer(ParameterTable table) {
        this(table, Tensor.zeros(DType.F32, table.bufferElements()));
    }

    /** A buffer of zeros on the engine's device. */
    public ParameterBuffer(TrainEngine engine, DType dtype, ParameterTable table) {
        this(table, engine.allocate(dtype, table.bufferElements()));
    }

    private ParameterBuffer(ParameterTable table, Tensor flat) {
        this.table = table;
        this.flat = flat;
        this.memory = Memory.borrow(
                flat.device(), flat.address(), flat.elements() * flat.dtype().bytes());
    }

    /** Which parameter lies where in the buffer. */
    public ParameterTable table() {
        return table;
    }

    /** All elements, gaps included; borrowed. */
    public Tensor flat() {
        return flat;
    }

    /** Elements {@code [begin, end)} of the flat buffer; borrowed. */
    public Tensor elements(long begin, long end) {
        return Tensor.over(memory, begin * flat.dtype().bytes(), flat.dtype(), end - begin);
    }

    /** The first parameter's address. */
    public long address() {
        return flat.address();
    }

    /** The parameter's address. */
    public long address(Parameter parameter) {
        return flat.address() + parameter.offset() * flat.dtype().bytes();
    }

    /** The parameter as a borrowed tensor, {@code [rows, columns]} or, for a vector, {@code [columns]}. */
    public Tensor tensor(Parameter parameter) {
        long offsetBytes = parameter.offset() * flat.dtype().bytes();
        return parameter.rows() == 1
                ? Tensor.over(memory, offsetBytes, flat.dtype(), parameter.columns())
                : Tensor.over(memory, offsetBytes, flat.dtype(), parameter.rows(), parameter.columns());
    }

    @Override
    public void close() {
        flat.close();
    }
}
