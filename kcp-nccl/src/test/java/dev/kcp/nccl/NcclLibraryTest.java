package dev.kcp.nccl;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NcclLibraryTest {
    @Test
    void theLibraryPathComesFirst(@TempDir Path folder) throws IOException {
        Path library = Files.createFile(folder.resolve(NcclLibrary.FILE_NAME));
        assertThat(NcclLibrary.require(Map.of("LD_LIBRARY_PATH", ":/nowhere:" + folder)))
                .isEqualTo(library);
    }

    /** Case 98, as far as it goes without a GPU. */
    @Test
    void differentCopiesAreAllNamedAndOneFileOnce(@TempDir Path folder) throws IOException {
        Path one = Files.createFile(Files.createDirectory(folder.resolve("one")).resolve(NcclLibrary.FILE_NAME));
        Path two = Files.createFile(Files.createDirectory(folder.resolve("two")).resolve(NcclLibrary.FILE_NAME));
        Path link = Files.createDirectory(folder.resolve("link"));
        Files.createSymbolicLink(link.resolve(NcclLibrary.FILE_NAME), two);
        String path = link + ":" + one.getParent() + ":" + two.getParent();
        assertThat(NcclLibrary.all(Map.of("LD_LIBRARY_PATH", path)))
                .startsWith(two.toRealPath(), one.toRealPath())
                .doesNotHaveDuplicates();
    }

    @Test
    void whatIsMissingIsNamedWithEveryFolderLookedAt(@TempDir Path folder) {
        assertThat(NcclLibrary.find(List.of(folder))).isEmpty();
        Map<String, String> environment = Map.of("LD_LIBRARY_PATH", folder.toString());
        if (NcclLibrary.find(NcclLibrary.folders(environment)).isEmpty()) {
            assertThatThrownBy(() -> NcclLibrary.require(environment))
                    .isInstanceOfSatisfying(
                            KcpException.class, e -> assertThat(e.code()).isEqualTo(KcpException.Code.MISSING_DEVICE))
                    .hasMessageContaining("libnccl.so.2")
                    .hasMessageContaining(folder.toString());
        }
    }
}
