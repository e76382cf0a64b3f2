package dev.kcp.train.cuda;

import dev.kcp.KcpException;
import dev.kcp.cuda.LibraryFolders;
import java.nio.file.Files;
import java.nio.file.Path;
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
        return LibraryFolders.of(environment, "targets/x86_64-linux/lib", "nvidia/cu13/lib");
    }
}
