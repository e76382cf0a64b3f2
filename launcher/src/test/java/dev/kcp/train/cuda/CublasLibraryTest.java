package dev.kcp.train.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.kcp.KcpException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CublasLibraryTest {
    @TempDir
    Path folder;

    @Test
    void folderWithBothFilesIsTakenBeforeThoseOfTheSystem() throws IOException {
        Path half = Files.createDirectory(folder.resolve("half"));
        Path whole = Files.createDirectory(folder.resolve("whole"));
        Files.createFile(half.resolve("libcublas.so.13"));
        for (String name : CublasLibrary.FILE_NAMES) {
            Files.createFile(whole.resolve(name));
        }
        Map<String, String> environment = Map.of("LD_LIBRARY_PATH", half + "::" + whole);
        assertThat(CublasLibrary.require(environment)).isEqualTo(whole);
    }

    @Test
    void missingLibraryIsNamedWithTheFoldersLookedAt() {
        Map<String, String> environment = Map.of("LD_LIBRARY_PATH", folder.toString());
        assumeTrue(CublasLibrary.find(CublasLibrary.folders(environment)).isEmpty(), "cuBLAS is installed here");
        assertThatThrownBy(() -> CublasLibrary.require(environment))
                .isInstanceOfSatisfying(KcpException.class, failure -> assertThat(failure.code())
                        .isEqualTo(KcpException.Code.MISSING_DEVICE))
                .hasMessageContaining("cuBLAS is not installed")
                .hasMessageContaining("libcublas.so.13")
                .hasMessageContaining(folder.toString());
    }

    @Test
    void foldersOfNobodyAreEmpty() {
        assertThat(CublasLibrary.find(List.of(folder))).isEmpty();
    }
}
