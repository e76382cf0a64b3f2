package dev.kcp.launcher;

import dev.kcp.KcpException;
import dev.kcp.launcher.Check.Need;
import dev.kcp.launcher.Check.State;
import dev.kcp.nccl.NcclLibrary;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** What {@code kcp doctor} says of GPUs, from files and nvidia-smi: no native library is loaded. */
final class GpuChecks {
    private static final String DRIVER = "libcuda.so.1";
    private static final int SMI_SECONDS = 10;

    private GpuChecks() {}

    static List<Check> all(Map<String, String> environment) {
        List<Check> checks = new ArrayList<>();
        int present = Gpus.present();
        List<String> visible = Gpus.visible(environment.get(Gpus.VISIBLE), present);
        checks.add(driver(environment));
        checks.add(new Check(
                "gpus",
                visible.isEmpty() ? State.MISSING : State.OK,
                "present=" + present + " visible=" + visible + " " + Gpus.VISIBLE + "=" + environment.get(Gpus.VISIBLE),
                List.of(Need.CUDA)));
        if (present > 0) {
            for (String gpu : listed(environment)) {
                checks.add(new Check("gpu", State.OK, gpu, List.of()));
            }
        }
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

    private static Check nccl(Map<String, String> environment) {
        try {
            return new Check("nccl", State.OK, realName(NcclLibrary.require(environment)), List.of(Need.NCCL));
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

    /** Name and UUID of each GPU, as nvidia-smi lists them; empty where it is not there or does not answer. */
    private static List<String> listed(Map<String, String> environment) {
        Optional<Path> smi = Programs.find("nvidia-smi", environment.get("PATH"));
        if (smi.isEmpty()) {
            return List.of();
        }
        try {
            Path answer = Files.createTempFile("kcp-doctor-", ".txt");
            try {
                Process asked = new ProcessBuilder(smi.get().toString(), "-L")
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
            return List.of("nvidia-smi: " + e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return List.of();
        }
    }
}
