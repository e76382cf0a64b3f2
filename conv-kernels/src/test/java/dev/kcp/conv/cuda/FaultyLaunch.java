package dev.kcp.conv.cuda;

import dev.kcp.KcpException;
import dev.kcp.conv.CausalConv1d;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvOptions;
import dev.kcp.cuda.CudaDevice;
import dev.kcp.cuda.CudaStream;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;

/** A program whose x lies where no memory is; prints what checked mode says of it. */
public final class FaultyLaunch {
    private static final long NO_MEMORY = 1L << 44;

    private FaultyLaunch() {}

    public static void main(String[] args) {
        CudaDevice device = CudaDevice.open(0);
        CudaStream stream = CudaStream.create(device);
        CudaConvEngine engine = CudaConvEngine.on(stream, true);
        ConvCase in = ConvCase.random(1, 128, 600);
        OnDevice gpu = new OnDevice(engine, in, DType.F32);
        Tensor x = Tensor.over(
                Memory.borrow(engine.device(), NO_MEMORY, in.x().elements() * 2), DType.BF16, in.rows(), in.channels());
        CausalConv1d conv = new CausalConv1d(engine, ConvOptions.DEFAULT);
        try {
            if (args[0].equals("forward")) {
                conv.forward(x, gpu.weight, null, gpu.offsets, gpu.y);
            } else {
                conv.backward(x, gpu.weight, null, gpu.offsets, gpu.dy, gpu.gradients);
            }
            System.out.println("nothing failed");
        } catch (KcpException e) {
            System.out.println(e.getMessage() + " code=" + e.code());
        }
        // The context is lost; what was made on it goes with the process.
        Runtime.getRuntime().halt(0);
    }
}
