package dev.kcp.conv.cuda;

import dev.kcp.conv.CausalConv1d;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.cuda.CudaStream;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;

/** A case's tensors on the GPU, and its results, poisoned before each call so that an element not written shows. */
final class OnDevice implements AutoCloseable {
    private final CudaConvEngine engine;
    private final CudaStream stream;
    private final ConvCase in;
    private final List<Tensor> owned = new ArrayList<>();
    final Tensor x;
    final Tensor dy;
    final Tensor weight;
    final Tensor bias;
    final Tensor offsets;
    final Tensor y;
    final Gradients gradients;

    OnDevice(CudaConvEngine engine, ConvCase in, DType gradientType) {
        this.engine = engine;
        this.stream = engine.stream();
        this.in = in;
        x = up(in.x());
        dy = up(in.dy());
        weight = up(in.weight());
        bias = in.bias() == null ? null : up(in.bias());
        offsets = up(in.offsets());
        y = poisoned(DType.BF16, in.rows(), in.channels());
        gradients = new Gradients(
                poisoned(DType.BF16, in.rows(), in.channels()),
                poisoned(gradientType, in.channels(), 4),
                bias == null ? null : poisoned(gradientType, in.channels()));
    }

    private Tensor up(Tensor host) {
        Tensor copy = stream.upload(host);
        owned.add(copy);
        return copy;
    }

    private Tensor poisoned(DType dtype, long... shape) {
        Tensor tensor = engine.allocate(dtype, shape);
        owned.add(tensor);
        poison(tensor);
        return tensor;
    }

    private void poison(Tensor tensor) {
        if (tensor != null) {
            stream.fill(
                    tensor.address(),
                    (byte) 0xFF,
                    tensor.elements() * tensor.dtype().bytes());
        }
    }

    void poisonResults() {
        poison(y);
        poison(gradients.dx());
        poison(gradients.dweight());
        poison(gradients.dbias());
    }

    OnDevice run(ConvOptions options) {
        CausalConv1d conv = new CausalConv1d(engine, options);
        conv.forward(x, weight, bias, offsets, y);
        conv.backward(x, weight, bias, offsets, dy, gradients);
        return this;
    }

    Tensor host(Tensor tensor) {
        Tensor copy = stream.download(tensor);
        owned.add(copy);
        return copy;
    }

    ConvCase in() {
        return in;
    }

    @Override
    public void close() {
        owned.forEach(Tensor::close);
    }
}
