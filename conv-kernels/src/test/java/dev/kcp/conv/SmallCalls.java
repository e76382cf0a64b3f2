package dev.kcp.conv;

import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A program that makes many small calls and prints the resident memory, in KiB, after half of them and at the end.
 * {@code java -Xms64m -Xmx64m -XX:+AlwaysPreTouch ... dev.kcp.conv.SmallCalls 100000}
 */
public final class SmallCalls {
    private SmallCalls() {}

    public static void main(String[] args) throws IOException {
        int calls = Integer.parseInt(args[0]);
        try (CpuConvEngine engine = new CpuConvEngine(1);
                ConvCase in = ConvCase.random(1, 16, 5, 9);
                Tensor dx = Tensor.zeros(DType.BF16, 14, 16);
                Tensor dweight = Tensor.zeros(DType.F32, 16, 4)) {
            CausalConv1d conv = new CausalConv1d(engine, ConvOptions.DEFAULT);
            for (int i = 0; i < calls; i++) {
                conv.forward(in.x(), in.weight(), null, in.offsets(), null).close();
                conv.backward(in.x(), in.weight(), null, in.offsets(), in.dy(), new Gradients(dx, dweight, null));
                if (i == calls / 2) {
                    System.out.println(residentKib());
                }
            }
            System.out.println(residentKib());
        }
    }

    private static long residentKib() throws IOException {
        return Files.readAllLines(Path.of("/proc/self/status")).stream()
                .filter(line -> line.startsWith("VmRSS"))
                .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
                .findFirst()
                .orElseThrow();
    }
}
