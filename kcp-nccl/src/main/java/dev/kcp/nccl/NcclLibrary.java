package dev.kcp.nccl;

import dev.kcp.KcpException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Finds NCCL's shared library as a file, before any class of a native binding is touched: those fail with an error that
 * does not name what is missing.
 */
public final class NcclLibrary {
    static final String FILE_NAME = "libnccl.so.2";

    private NcclLibrary() {}

    /**
     * The library that a process with this environment would load.
     *
     * @throws KcpException with code MISSING_DEVICE, naming every folder looked at
     */
    public static Path require(Map<String, String> environment) {
        List<Path> folders = folders(environment);
        return find(folders)
                .orElseThrow(() -> new KcpException(
                        KcpException.Code.MISSING_DEVICE,
                        "NCCL is not installed: install NVIDIA's libnccl2 package or put its folder into LD_LIBRARY_PATH;"
                                + " file=" + FILE_NAME + " folders=" + folders));
    }

    /**
     * Every different file by that name that is installed, the one that would be loaded first: two copies in one process
     * break each other.
     */
    public static List<Path> all(Map<String, String> environment) {
        List<Path> files = new ArrayList<>();
        for (Path folder : folders(environment)) {
            Path file = folder.resolve(FILE_NAME);
            try {
                if (Files.isReadable(file) && !files.contains(file.toRealPath())) {
                    files.add(file.toRealPath());
                }
            } catch (IOException gone) {
                // A link to nothing is no library.
            }
        }
        return files;
    }

    static Optional<Path> find(List<Path> folders) {
        return folders.stream()
                .map(folder -> folder.resolve(FILE_NAME))
                .filter(Files::isReadable)
                .findFirst();
    }

    static List<Path> folders(Map<String, String> environment) {
        List<Path> folders = new ArrayList<>();
        for (String entry : environment.getOrDefault("LD_LIBRARY_PATH", "").split(":")) {
            if (!entry.isEmpty()) {
                folders.add(Path.of(entry));
            }
        }
        folders.add(Path.of("/usr/lib/x86_64-linux-gnu"));
        folders.add(Path.of("/usr/lib64"));
        folders.addAll(matching(Path.of("/usr/local"), "cuda*", "lib64"));
        for (String pythons : new String[] {"/usr/local/lib", "/usr/lib"}) {
            folders.addAll(matching(Path.of(pythons), "python3*", "site-packages/nvidia/nccl/lib"));
            folders.addAll(matching(Path.of(pythons), "python3*", "dist-packages/nvidia/nccl/lib"));
        }
        return folders;
    }

    private static List<Path> matching(Path parent, String glob, String below) {
        if (!Files.isDirectory(parent)) {
            return List.of();
        }
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(parent, glob)) {
            List<Path> found = new ArrayList<>();
            entries.forEach(entry -> {
                if (Files.isDirectory(entry.resolve(below))) {
                    found.add(entry.resolve(below));
                }
            });
            found.sort(null);
            return found;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
