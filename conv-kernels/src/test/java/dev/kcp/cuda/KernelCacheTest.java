package dev.kcp.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Compiled kernels are kept whole or not at all. */
class KernelCacheTest {
    @TempDir
    Path folder;

    private static byte[] bytes(int seed, int count) {
        byte[] bytes = new byte[count];
        new Random(seed).nextBytes(bytes);
        return bytes;
    }

    @Test
    void whatIsKeptComesBack() {
        KernelCache cache = new KernelCache(folder.resolve("made/when/needed"));
        assertThat(cache.get("a")).isNull();
        assertThat(cache.put("a", bytes(1, 1000))).exists();
        assertThat(cache.get("a")).isEqualTo(bytes(1, 1000));
        assertThat(cache.get("b")).isNull();
        cache.put("a", bytes(2, 10));
        assertThat(cache.get("a")).isEqualTo(bytes(2, 10));
    }

    @Test
    void cutOrChangedFilesAreNotTaken() throws IOException {
        KernelCache cache = new KernelCache(folder);
        Path file = cache.put("a", bytes(1, 1000));
        byte[] whole = Files.readAllBytes(file);
        for (int length : new int[] {0, 31, 32, whole.length - 1}) {
            Files.write(file, java.util.Arrays.copyOf(whole, length));
            assertThat(cache.get("a")).as("%d bytes", length).isNull();
        }
        whole[500] ^= 1;
        Files.write(file, whole);
        assertThat(cache.get("a")).isNull();
    }

    @Test
    void folderThatCannotBeMadeKeepsNothing() throws IOException {
        Path file = Files.writeString(folder.resolve("file"), "");
        assertThat(new KernelCache(file.resolve("below")).put("a", bytes(1, 10)))
                .isNull();
    }

    @Test
    void writersAtOnceLeaveOneWholeFile() throws Exception {
        KernelCache cache = new KernelCache(folder.resolve("shared"));
        try (ExecutorService threads = Executors.newFixedThreadPool(8)) {
            List<Callable<Boolean>> tasks = new ArrayList<>();
            for (int i = 0; i < 64; i++) {
                int seed = i;
                tasks.add(() -> {
                    cache.put("a", bytes(seed, 100_000));
                    byte[] got = cache.get("a");
                    return Stream.iterate(0, s -> s + 1)
                            .limit(64)
                            .anyMatch(s -> java.util.Arrays.equals(got, bytes(s, 100_000)));
                });
            }
            for (Future<Boolean> whole : threads.invokeAll(tasks)) {
                assertThat(whole.get()).isTrue();
            }
        }
        try (Stream<Path> files = Files.list(cache.folder())) {
            assertThat(files).hasSize(1);
        }
    }
}
