package dev.kcp.nccl;

import dev.kcp.KcpException;
import dev.kcp.cuda.LibraryFolders;
import java.io.IOException;
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
        return LibraryFolders.of(environment, "lib64", "nvidia/nccl/lib");
    }
}
