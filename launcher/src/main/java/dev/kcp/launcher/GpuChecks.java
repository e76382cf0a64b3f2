package dev.kcp.launcher;

import dev.kcp.KcpException;
import dev.kcp.Words;
import dev.kcp.launcher.Check.Need;
import dev.kcp.launcher.Check.State;
import dev.kcp.nccl.NcclLibrary;
import dev.kcp.nccl.NcclVersion;
import dev.kcp.train.cuda.CublasLibrary;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.bytedeco.javacpp.Loader;

/** What {@code kcp doctor} says of GPUs, from files, nvidia-smi and the libraries' own versions. */
final class GpuChecks {
    private static final String DRIVER = "libcuda.so.1";
    private static final int SMI_SECONDS = 10;

    private GpuChecks() {}

    static List<Check> all(Map<String, String> environment) {
        List<Check> checks = new ArrayList<>();
        int present = Gpus.present();
        List<String> visible = Gpus.visible(environment.get(Gpus.VISIBLE), present);
        Check driver = driver(environment);
        checks.add(driver);
        checks.add(new Check(
                "gpus",
                visible.isEmpty() ? State.MISSING : State.OK,
                "present=" + present + " visible=" + visible + " " + Gpus.VISIBLE + "=" + environment.get(Gpus.VISIBLE),
                List.of(Need.CUDA)));
        SortedSet<Integer> capabilities = new TreeSet<>();
        if (present > 0) {
            for (String gpu : asked(environment, "-L")) {
                checks.add(new Check("gpu", State.OK, gpu, List.of()));
            }
            capabilities = capabilities(asked(environment, "--query-gpu=compute_cap", "--format=csv,noheader"));
        }
        checks.addAll(KernelChecks.all(capabilities));
        if (driver.state() == State.OK) {
            checks.add(binding());
        }
        checks.add(cublas(environment));
        checks.add(nccl(environment));
        return checks;
    }

    private static Check driver(Map<String, String> environment) {
        List<Path> folders = new ArrayList<>();
        for (String folder : environment.getOrDefault("LD_LIBRARY_PATH", "").split(":")) {
            if (!folder.isEmpty()) {
                folders.add(Path.of(folder));
            }
        }
        for (String folder :
                List.of("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib")) {
            folders.add(Path.of(folder));
        }
        Optional<Path> file = folders.stream()
                .map(folder -> folder.resolve(DRIVER))
                .filter(Files::isReadable)
                .findFirst();
        return file.map(path ->
                        new Check("driver", State.OK, realName(path) + " " + kernelModule(), List.of(Need.CUDA)))
                .orElseGet(() -> new Check(
                        "driver",
                        State.MISSING,
                        "no " + DRIVER + ": install NVIDIA's driver; folders=" + folders,
                        List.of(Need.CUDA)));
    }

    /** The version line of the loaded kernel module. */
    private static String kernelModule() {
        try {
            return Files.readAllLines(Path.of("/proc/driver/nvidia/version"), StandardCharsets.ISO_8859_1)
                    .getFirst()
                    .replaceAll("\\s+", " ");
        } catch (IOException none) {
            return "(no /proc/driver/nvidia/version)";
        }
    }

    /** What the trainer alone needs. */
    private static Check cublas(Map<String, String> environment) {
        try {
            return new Check("cublas", State.OK, "for kcp train: " + CublasLibrary.require(environment), List.of());
        } catch (KcpException missing) {
            return new Check("cublas", State.NOTE, "for kcp train: " + missing.getMessage(), List.of());
        }
    }

    private static Check nccl(Map<String, String> environment) {
        try {
            Path library = NcclLibrary.require(environment);
            NcclVersion version = NcclVersion.require(library);
            List<Path> others = new ArrayList<>(NcclLibrary.all(environment));
            others.remove(Path.of(realName(library)));
            String more =
                    others.isEmpty() ? "" : "; further copies, of which none may come into the same process: " + others;
            return new Check(
                    "nccl",
                    others.isEmpty() ? State.OK : State.NOTE,
                    version + " " + realName(library) + more,
                    List.of(Need.NCCL));
        } catch (KcpException missing) {
            return new Check("nccl", State.MISSING, missing.getMessage(), List.of(Need.NCCL));
        }
    }

    /** The file behind the link, whose name ends in the version. */
    private static String realName(Path library) {
        try {
            return library.toRealPath().toString();
        } catch (IOException e) {
            return library.toString();
        }
    }

    /** Loads CUDA's binding, which unpacks it where that was not done before; only where there is a driver to load it. */
    private static Check binding() {
        long start = System.nanoTime();
        try {
            Loader.load(org.bytedeco.cuda.global.cudart.class);
            return new Check(
                    "cuda binding",
                    State.OK,
                    "loaded in " + (System.nanoTime() - start) / 1_000_000 + " ms",
                    List.of(Need.CUDA));
        } catch (RuntimeException | LinkageError failure) {
            Throwable cause = failure.getCause() == null ? failure : failure.getCause();
            return new Check("cuda binding", State.MISSING, Words.line(Words.of(cause)), List.of(Need.CUDA));
        }
    }

    /** Compute capabilities such as 9.0, as major * 10 + minor. */
    static SortedSet<Integer> capabilities(List<String> lines) {
        SortedSet<Integer> capabilities = new TreeSet<>();
        for (String line : lines) {
            if (line.strip().matches("\\d{1,2}\\.\\d")) {
                capabilities.add(Integer.parseInt(line.strip().replace(".", "")));
            }
        }
        return capabilities;
    }

    /** What nvidia-smi says, line by line; empty where it is not there. */
    private static List<String> asked(Map<String, String> environment, String... options) {
        Optional<Path> smi = Programs.find("nvidia-smi", environment.get("PATH"));
        if (smi.isEmpty()) {
            return List.of();
        }
        try {
            Path answer = Files.createTempFile("kcp-doctor-", ".txt");
            try {
                List<String> command = new ArrayList<>(List.of(smi.get().toString()));
                command.addAll(List.of(options));
                Process asked = new ProcessBuilder(command)
                        .redirectOutput(answer.toFile())
                        .redirectError(ProcessBuilder.Redirect.DISCARD)
                        .start();
                if (!asked.waitFor(SMI_SECONDS, TimeUnit.SECONDS)) {
                    asked.destroyForcibly();
                    return List.of("nvidia-smi did not answer in " + SMI_SECONDS + " s");
                }
                return Files.readAllLines(answer);
            } finally {
                Files.deleteIfExists(answer);
            }
        } catch (IOException e) {
            return List.of("nvidia-smi: " + Words.of(e));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return List.of();
        }
    }
}
