package dev.kcp.launcher;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.Safetensors;
import dev.kcp.tensor.Tensor;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/**
 * {@code kcp warm}: does a little of everything and shows nothing. The {@code kcp} script runs it once after a build to
 * record which classes a start needs.
 */
@Command(name = "warm", hidden = true)
final class WarmCommand implements Callable<Integer> {
    private static final int CHANNELS = 8;

    @Option(names = "--starts", description = "Only what a JVM that computes nothing itself does.")
    private boolean starts;

    @Override
    @SuppressWarnings("try") // the stream only takes the place of stdout
    public Integer call() throws IOException {
        PrintStream shown = System.out;
        Path folder = Files.createTempDirectory("kcp-warm-");
        try (PrintStream nowhere = new PrintStream(OutputStream.nullOutputStream())) {
            System.setOut(nowhere);
            CommandLine kcp = Main.commandLine(Map.of());
            kcp.usage(nowhere);
            kcp.getSubcommands().get("run").usage(nowhere);
            int run = Main.run(Map.of(), "run", "-n", "1", "--", "true");
            if (starts) {
                return run;
            }
            Path in = folder.resolve("in");
            Path out = folder.resolve("out");
            writeCase(in);
            int conv = kcp.execute(
                    "conv", "--in", in.toString(), "--out", out.toString(), "--backward", "--handle", "--world", "2");
            return Math.max(conv, run);
        } finally {
            System.setOut(shown);
            for (String name : List.of("in", "out")) {
                Files.deleteIfExists(folder.resolve(name));
            }
            Files.deleteIfExists(folder);
        }
    }

    private static void writeCase(Path file) {
        int tokens = 12;
        try (Tensor x = Tensor.zeros(DType.BF16, tokens, CHANNELS);
                Tensor dy = Tensor.zeros(DType.BF16, tokens, CHANNELS);
                Tensor weight = Tensor.zeros(DType.F32, CHANNELS, 4);
                Tensor offsets = Tensor.zeros(DType.I32, 2)) {
            offsets.segment().setAtIndex(java.lang.foreign.ValueLayout.JAVA_INT, 1, tokens);
            Safetensors.write(file, Map.of("x", x, "dy", dy, "weight", weight, "cu_seqlens", offsets));
        }
    }
}
