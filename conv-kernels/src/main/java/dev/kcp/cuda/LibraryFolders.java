package dev.kcp.cuda;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Where NVIDIA's libraries may lie. They are looked for as files before any class of a native binding is touched: those fail
 * with an error that does not name what is missing.
 */
public final class LibraryFolders {
    private LibraryFolders() {}

    /**
     * Folders in the order in which a process would find a library: its library path, the system's, CUDA's own, Python's.
     *
     * @param environment of the process
     * @param inCuda folder below one of CUDA, for example {@code lib64}
     * @param inPython folder below one of Python's packages, for example {@code nvidia/nccl/lib}
     */
    public static List<Path> of(Map<String, String> environment, String inCuda, String inPython) {
        List<Path> folders = new ArrayList<>();
        for (String entry : environment.getOrDefault("LD_LIBRARY_PATH", "").split(":")) {
            if (!entry.isEmpty()) {
                folders.add(Path.of(entry));
            }
        }
        folders.add(Path.of("/usr/lib/x86_64-linux-gnu"));
        folders.add(Path.of("/usr/lib64"));
        folders.addAll(matching(Path.of("/usr/local"), "cuda*", inCuda));
        for (String pythons : new String[] {"/usr/local/lib", "/usr/lib"}) {
            for (String packages : new String[] {"site-packages", "dist-packages"}) {
                folders.addAll(matching(Path.of(pythons), "python3*", packages + "/" + inPython));
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
