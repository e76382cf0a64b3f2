package dev.kcp.launcher;

import dev.kcp.Words;
import dev.kcp.launcher.Check.Need;
import dev.kcp.launcher.Check.State;
import dev.kcp.train.cpu.Gemm;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import jdk.incubator.vector.FloatVector;
import org.bytedeco.javacpp.Loader;

/** What {@code kcp doctor} says of the JVM and the machine. */
final class HostChecks {
    private static final long FEW_FILES = 1024;
    private static final long SMALL_SHM_BYTES = 1L << 30;

    private HostChecks() {}

    static List<Check> all(Map<String, String> environment) {
        List<Check> checks = new ArrayList<>();
        checks.add(new Check(
                "jdk",
                Runtime.version().feature() >= 25 ? State.OK : State.MISSING,
                System.getProperty("java.vendor") + " " + Runtime.version() + " " + System.getProperty("java.home"),
                List.of(Need.CPU)));
        checks.add(nativeAccess());
        checks.add(vectors());
        checks.add(openBlas());
        checks.add(cores());
        checks.add(setsid(environment));
        checks.add(ports());
        checks.add(temporaryFolder());
        checks.add(sharedMemory());
        checks.add(limit("open files", "Max open files", FEW_FILES));
        checks.add(limit("processes", "Max processes", FEW_FILES));
        checks.add(limit("locked memory", "Max locked memory", 0));
        checks.add(new Check(
                "numactl",
                Programs.find("numactl", environment.get("PATH")).isPresent() ? State.OK : State.NOTE,
                Programs.find("numactl", environment.get("PATH"))
                        .map(Path::toString)
                        .orElse("not installed; only kcp run --numa needs it"),
                List.of()));
        return checks;
    }

    private static Check nativeAccess() {
        boolean isOn = HostChecks.class.getModule().isNativeAccessEnabled();
        return new Check(
                "native access",
                isOn ? State.OK : State.MISSING,
                isOn ? "enabled" : "start Java with --enable-native-access=ALL-UNNAMED",
                List.of(Need.CPU));
    }

    private static Check vectors() {
        try {
            return new Check(
                    "vectors", State.OK, FloatVector.SPECIES_PREFERRED.vectorBitSize() + " bits", List.of(Need.CPU));
        } catch (LinkageError missing) {
            return new Check(
                    "vectors", State.MISSING, "start Java with --add-modules jdk.incubator.vector", List.of(Need.CPU));
        }
    }

    /** Loads the library, which unpacks it where that was not done before: later starts find it. */
    private static Check openBlas() {
        long start = System.nanoTime();
        try {
            new Gemm(1);
            String cache = cacheFolder().map(Path::toString).orElse("none");
            return new Check(
                    "openblas",
                    State.OK,
                    "loaded in " + (System.nanoTime() - start) / 1_000_000 + " ms, cache=" + cache,
                    List.of(Need.CPU));
        } catch (RuntimeException | LinkageError failure) {
            return new Check("openblas", State.MISSING, Words.line(failure.getMessage()), List.of(Need.CPU));
        }
    }

    /** Which native libraries are unpacked, so that ranks that start together need not do it. */
    static Check nativeCaches() {
        Optional<Path> folder = cacheFolder();
        List<String> warm = new ArrayList<>();
        List<String> cold = new ArrayList<>();
        for (String library : List.of("openblas", "cuda")) {
            (folder.isPresent() && isUnpacked(folder.get(), library) ? warm : cold).add(library);
        }
        return new Check(
                "native caches",
                warm.contains("openblas") ? State.OK : State.NOTE,
                "unpacked=" + warm + " not yet=" + cold + " folder="
                        + folder.map(Path::toString).orElse("none"),
                List.of());
    }

    private static boolean isUnpacked(Path folder, String library) {
        try (DirectoryStream<Path> jars = Files.newDirectoryStream(folder, library + "-*.jar")) {
            return jars.iterator().hasNext();
        } catch (IOException none) {
            return false;
        }
    }

    private static Optional<Path> cacheFolder() {
        try {
            return Optional.of(Loader.getCacheDir().toPath());
        } catch (IOException none) {
            return Optional.empty();
        }
    }

    private static Check cores() {
        String memory = line("/proc/meminfo", "MemAvailable:")
                .map(kilobytes -> Long.parseLong(kilobytes.split(" ")[0]) / 1024 + " MiB available")
                .orElse("memory unknown");
        return new Check(
                "cores", State.OK, Runtime.getRuntime().availableProcessors() + " cores, " + memory, List.of());
    }

    private static Check setsid(Map<String, String> environment) {
        try {
            return new Check(
                    "setsid", State.OK, Programs.setsid(environment.get("PATH")).toString(), List.of(Need.CPU));
        } catch (RuntimeException missing) {
            return new Check("setsid", State.MISSING, missing.getMessage(), List.of(Need.CPU));
        }
    }

    private static Check ports() {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getByName(JobEnvironment.LOOPBACK))) {
            return new Check(
                    "ports",
                    State.OK,
                    "can listen at " + JobEnvironment.LOOPBACK + ", for example port " + socket.getLocalPort(),
                    List.of(Need.CPU));
        } catch (IOException e) {
            return new Check(
                    "ports",
                    State.MISSING,
                    "cannot listen: host=" + JobEnvironment.LOOPBACK + " port=0 cause=" + Words.of(e),
                    List.of(Need.CPU));
        }
    }

    private static Check temporaryFolder() {
        Path folder = Path.of(System.getProperty("java.io.tmpdir"));
        boolean isUsable = Files.isDirectory(folder) && Files.isWritable(folder);
        return new Check(
                "temporary folder",
                isUsable ? State.OK : State.MISSING,
                isUsable ? folder.toString() : "cannot be written: java.io.tmpdir=" + folder,
                List.of(Need.CPU));
    }

    private static Check sharedMemory() {
        try {
            long bytes = Files.getFileStore(Path.of("/dev/shm")).getUsableSpace();
            return new Check(
                    "/dev/shm",
                    bytes < SMALL_SHM_BYTES ? State.NOTE : State.OK,
                    bytes / (1 << 20) + " MiB free" + (bytes < SMALL_SHM_BYTES ? "; NCCL may want 1 GiB" : ""),
                    List.of());
        } catch (IOException none) {
            return new Check("/dev/shm", State.NOTE, "not there; NCCL wants it", List.of());
        }
    }

    private static Check limit(String name, String label, long least) {
        Optional<String> soft = line("/proc/self/limits", label).map(values -> values.split(" +")[0]);
        boolean isLow = soft.filter(value -> value.matches("\\d{1,18}"))
                .map(value -> Long.parseLong(value) < least)
                .orElse(false);
        return new Check(
                name,
                isLow ? State.NOTE : State.OK,
                soft.orElse("unknown") + (isLow ? "; many ranks want more (ulimit)" : ""),
                List.of());
    }

    /** The rest of the line that begins with {@code label}. */
    private static Optional<String> line(String file, String label) {
        try {
            return Files.readAllLines(Path.of(file), StandardCharsets.ISO_8859_1).stream()
                    .filter(line -> line.startsWith(label))
                    .map(line -> line.substring(label.length()).strip())
                    .findFirst();
        } catch (IOException none) {
            return Optional.empty();
        }
    }
}
