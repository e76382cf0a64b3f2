package dev.kcp.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.kcp.KcpException;
import dev.kcp.conv.cuda.CudaConvEngine;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The jar's sources, and their way through NVRTC where that and a driver are installed; a GPU is not needed. */
class KernelSourceTest {
    private static final int HOPPER = 90;
    private static final Pattern INTEGER = Pattern.compile("\\bu?int(_\\w+)?\\d+_t\\b");
    private static final Pattern ATOMIC = Pattern.compile("\\batom|\\bred\\.");

    @Test
    void everyFileOfKernelsComesWithWhatItIncludes() {
        for (String name : List.of("conv_forward", "conv_backward", "conv_check")) {
            KernelSource source = KernelSource.of(CudaConvEngine.class, name);
            assertThat(source.text()).contains("extern \"C\" __global__");
            assertThat(source.headers()).containsKeys("conv_common.cuh", "integers.cuh");
            for (Map.Entry<String, String> header : source.headers().entrySet()) {
                assertThat(header.getValue()).as(header.getKey()).contains("#pragma once");
            }
        }
        assertThat(KernelSource.of(CudaConvEngine.class, "conv_backward").headers())
                .containsKeys("backward_walk.cuh", "backward_reduce.cuh", "conv_feed.cuh", "conv_math.cuh");
    }

    /** The one atomic is an integer minimum, which no order changes, and checked mode's. */
    @Test
    void case37NoRouteHasAFloatingPointAtomic() {
        for (String name : List.of("conv_forward", "conv_backward")) {
            KernelSource source = KernelSource.of(CudaConvEngine.class, name);
            assertThat(source.text()).doesNotContainPattern(ATOMIC);
            source.headers()
                    .forEach((header, text) -> assertThat(text).as(header).doesNotContainPattern(ATOMIC));
        }
        assertThat(KernelSource.of(CudaConvEngine.class, "conv_check").text()).containsPattern(ATOMIC);
    }

    @Test
    void aFileThatIsNotThereIsNamed() {
        assertThatThrownBy(() -> KernelSource.of(CudaConvEngine.class, "conv_none"))
                .isInstanceOf(KcpException.class)
                .hasMessageContaining("file=conv_none.cu");
    }

    /** Every source of the checkout, whichever module it lies in. */
    private static List<Path> sources(String ending) throws IOException {
        Path root = Path.of(System.getProperty("kcp.root"));
        List<Path> found = new ArrayList<>();
        try (DirectoryStream<Path> modules = Files.newDirectoryStream(root, "*")) {
            for (Path module : modules) {
                Path folder = module.resolve("src/main/cuda");
                if (Files.isDirectory(folder)) {
                    try (DirectoryStream<Path> files = Files.newDirectoryStream(folder, "*" + ending)) {
                        files.forEach(found::add);
                    }
                }
            }
        }
        return found;
    }

    @Test
    void noSourceIncludesASystemsHeaderButWhereTheRuntimeCompilerDoesNotLook() throws IOException {
        assertThat(sources(".cu")).hasSizeGreaterThanOrEqualTo(7);
        for (String ending : List.of(".cu", ".cuh")) {
            for (Path file : sources(ending)) {
                String seen = Files.readString(file).replaceAll("(?s)#ifdef __CUDACC_RTC__(.*?)#else.*?#endif", "$1");
                assertThat(seen).as(file.toString()).doesNotContain("#include <");
            }
        }
    }

    @Test
    void everyIntegerOfAFixedSizeHasItsDefinitionForTheRuntimeCompiler() throws IOException {
        String definitions = "";
        for (Path file : sources("integers.cuh")) {
            definitions += Files.readString(file).replaceAll("(?s).*#ifdef __CUDACC_RTC__(.*?)#else.*", "$1");
        }
        for (String ending : List.of(".cu", ".cuh")) {
            for (Path file : sources(ending)) {
                Matcher used = INTEGER.matcher(Files.readString(file));
                while (used.find()) {
                    assertThat(definitions).as(file.toString()).contains("using " + used.group() + " =");
                }
            }
        }
    }

    /** As on a machine whose build had no nvcc. */
    @Test
    void everySourceCompilesByTheRuntimeCompilerAlone() throws IOException {
        assumeNvrtc();
        sources(".cu").parallelStream().forEach(file -> {
            TreeMap<String, String> headers = new TreeMap<>();
            try {
                for (Path header : sources(".cuh")) {
                    headers.put(header.getFileName().toString(), Files.readString(header));
                }
                String name = file.getFileName().toString().replace(".cu", "");
                KernelSource source = new KernelSource(name, Files.readString(file), headers);
                assertThat(Nvrtc.compile(source, "sm_" + HOPPER, List.of("-std=c++20", "--fmad=false")))
                        .as(name)
                        .startsWith(0x7F, 'E', 'L', 'F');
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
    }

    private static void assumeNvrtc() {
        assumeTrue(Driver.canLoad("libcuda.so.1") && Nvrtc.isInstalled(), "NVRTC or a driver is not installed here");
    }

    @Test
    void compiledOnceThenTakenFromTheCache(@TempDir Path folder) throws Exception {
        assumeNvrtc();
        KernelCache cache = new KernelCache(folder);
        KernelSource source = KernelSource.of(CudaConvEngine.class, "conv_check");
        byte[] code = KernelCompiler.compile(source, HOPPER, cache);
        assertThat(code).startsWith(0x7F, 'E', 'L', 'F');
        List<Path> files = Files.list(folder).toList();
        assertThat(files)
                .singleElement()
                .satisfies(file -> assertThat(file.getFileName().toString()).startsWith("conv_check-sm_90-"));
        Path file = files.getFirst();
        cache.put(file.getFileName().toString().replace(".cubin", ""), new byte[] {1, 2, 3});
        assertThat(KernelCompiler.compile(source, HOPPER, cache)).containsExactly(1, 2, 3);
        Files.write(file, new byte[100]);
        assertThat(KernelCompiler.compile(source, HOPPER, cache)).isEqualTo(code);
        KernelSource changed = new KernelSource(source.name(), source.text() + "\n", source.headers());
        KernelCompiler.compile(changed, HOPPER, cache);
        assertThat(Files.list(folder)).hasSize(2);
    }

    @Test
    void anErrorComesWithTheCompilersLog(@TempDir Path folder) {
        assumeNvrtc();
        KernelSource wrong = new KernelSource("wrong", "__global__ void f() { return 1; }", new TreeMap<>());
        assertThatThrownBy(() -> KernelCompiler.compile(wrong, HOPPER, new KernelCache(folder)))
                .isInstanceOf(KcpException.class)
                .hasMessageContaining("nvrtcCompileProgram failed: NVRTC_ERROR_COMPILATION")
                .hasMessageContaining("wrong.cu(1): error");
        assertThat(folder).isEmptyDirectory();
    }
}
