package dev.kcp.conv.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvMath;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.ShardTables;
import dev.kcp.conv.SiluGradPolicy;
import dev.kcp.conv.Tolerance;
import dev.kcp.cuda.CudaDevice;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.KernelCache;
import dev.kcp.cuda.KernelCompiler;
import dev.kcp.cuda.KernelModule.Origin;
import dev.kcp.cuda.NeedsGpu;
import dev.kcp.cuda.Nvrtc;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What NVRTC makes of the jar's sources has the bits of the jar's machine code, on every route. */
@NeedsGpu
class CompiledKernelsTest {
    @TempDir
    static Path folder;

    private static CudaDevice device;
    private static CudaStream stream;
    private static CudaConvEngine built;
    private static CudaConvEngine compiled;

    @BeforeAll
    static void open() {
        device = CudaDevice.open(0);
        assumeTrue(Nvrtc.isInstalled(), "NVRTC is not installed here");
        assertThat(KernelCompiler.isAvailable(device)).isTrue();
        System.setProperty(KernelCache.FOLDER_PROPERTY, folder.toString());
        stream = CudaStream.create(device);
        built = CudaConvEngine.on(stream, false);
        compiled = CudaConvEngine.on(stream, true, Origin.COMPILED);
    }

    @AfterAll
    static void close() {
        System.clearProperty(KernelCache.FOLDER_PROPERTY);
        if (compiled != null) {
            compiled.close();
            built.close();
            stream.close();
        }
        device.close();
    }

    @Test
    void wholeBatches() {
        for (int seed = 0; seed < 8; seed++) {
            Random random = new Random(seed);
            DType biasType = seed % 2 == 0 ? null : DType.F32;
            try (ConvCase in = ConvCase.random(seed, 136, DType.F32, biasType, CudaParityTest.lengths(random));
                    OnDevice want = new OnDevice(built, in, DType.F32);
                    OnDevice got = new OnDevice(compiled, in, DType.F32)) {
                for (SiluGradPolicy policy : SiluGradPolicy.values()) {
                    for (ConvMath math : ConvMath.values()) {
                        ConvOptions options = new ConvOptions(policy, math, false);
                        want.run(options);
                        got.run(options);
                        Tolerance.assertSameBits("y", got.host(got.y), want.host(want.y));
                        Tolerance.assertSameBits("dx", got.host(got.gradients.dx()), want.host(want.gradients.dx()));
                        Tolerance.assertSameBits(
                                "dweight", got.host(got.gradients.dweight()), want.host(want.gradients.dweight()));
                    }
                }
            }
        }
    }

    @Test
    void shardsWithHistoryAndOwedRows() {
        for (int seed = 0; seed < 6; seed++) {
            Random random = new Random(seed);
            ShardTables tables = CudaShardTest.tables(random);
            try (CudaShardTest.Case in = new CudaShardTest.Case(random, tables.rows(), 200, seed % 2 == 0)) {
                for (SiluGradPolicy policy : SiluGradPolicy.values()) {
                    for (ConvMath math : ConvMath.values()) {
                        ConvOptions options = new ConvOptions(policy, math, true);
                        List<Tensor> want = CudaShardTest.run(built, tables, in, options, stream::upload);
                        List<Tensor> got = CudaShardTest.run(compiled, tables, in, options, stream::upload);
                        for (int i = 0; i < want.size(); i++) {
                            try (Tensor a = stream.download(got.get(i));
                                    Tensor b = stream.download(want.get(i))) {
                                Tolerance.assertSameBits("result " + i, a, b);
                            }
                        }
                        Stream.concat(want.stream(), got.stream()).forEach(Tensor::close);
                    }
                }
            }
        }
    }

    @Test
    void theSecondEngineTakesThemFromTheCache() throws IOException {
        Map<Path, FileTime> before = times();
        assertThat(before.keySet().toString())
                .contains("conv_forward-sm_" + device.computeCapability())
                .contains("conv_backward-sm_")
                .contains("conv_check-sm_")
                .contains("rows-sm_");
        CudaConvEngine.on(stream, true, Origin.COMPILED).close();
        assertThat(times()).isEqualTo(before);
    }

    private static Map<Path, FileTime> times() throws IOException {
        Map<Path, FileTime> times = new HashMap<>();
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.toList()) {
                times.put(file, Files.getLastModifiedTime(file));
            }
        }
        return times;
    }
}
