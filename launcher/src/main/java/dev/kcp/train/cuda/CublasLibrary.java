package dev.kcp.train.cuda;

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
 * Finds cuBLAS as files, before any class of the binding is touched: those fail with an error that does not name what is
 * missing.
 */
public final class CublasLibrary {
    /** In the order in which they are loaded; both lie in one folder. */
    static final List<String> FILE_NAMES = List.of("libcublasLt.so.13", "libcublas.so.13");

    private CublasLibrary() {}

    /**
     * The folder of the library that a process with this environment would load.
     *
     * @throws KcpException with code MISSING_DEVICE, naming every folder looked at
     */
    public static Path require(Map<String, String> environment) {
        List<Path> folders = folders(environment);
        return find(folders)
                .orElseThrow(() -> new KcpException(
                        KcpException.Code.MISSING_DEVICE,
                        "cuBLAS is not installed: install NVIDIA's libcublas package of CUDA 13 or put its folder into"
                                + " LD_LIBRARY_PATH; files=" + FILE_NAMES + " folders=" + folders));
    }

    static Optional<Path> find(List<Path> folders) {
        return folders.stream()
                .filter(folder -> FILE_NAMES.stream().allMatch(name -> Files.isReadable(folder.resolve(name))))
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
        folders.addAll(matching(Path.of("/usr/local"), "cuda*", "targets/x86_64-linux/lib"));
        for (String pythons : new String[] {"/usr/local/lib", "/usr/lib"}) {
            for (String packages : new String[] {"site-packages", "dist-packages"}) {
                folders.addAll(matching(Path.of(pythons), "python3*", packages + "/nvidia/cu13/lib"));
            }
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
