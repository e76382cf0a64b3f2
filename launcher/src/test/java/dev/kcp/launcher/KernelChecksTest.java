package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.launcher.Check.Need;
import dev.kcp.launcher.Check.State;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Optional;
import java.util.SortedSet;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

class KernelChecksTest {
    private static SortedSet<Integer> set(Integer... generations) {
        return new TreeSet<>(List.of(generations));
    }

    /** As nvcc writes it: kind 2 is machine code, 1 is PTX. */
    private static byte[] container(int... kindsAndGenerations) {
        int codeBytes = 40;
        int parts = kindsAndGenerations.length / 2;
        ByteBuffer out = ByteBuffer.allocate(16 + parts * (64 + codeBytes)).order(ByteOrder.LITTLE_ENDIAN);
        out.putInt(0xba55ed50).putShort((short) 1).putShort((short) 16).putLong(out.capacity() - 16);
        for (int i = 0; i < parts; i++) {
            int begin = out.position();
            out.putShort((short) kindsAndGenerations[2 * i]).putShort((short) 0x101);
            out.putInt(64).putLong(codeBytes);
            out.putInt(begin + 28, kindsAndGenerations[2 * i + 1]);
            out.position(begin + 64 + codeBytes);
        }
        return out.array();
    }

    @Test
    void generationsAreReadFromTheContainer() {
        assertThat(KernelChecks.generations(container(2, 80, 2, 120, 1, 75, 2, 90)))
                .containsExactly(80, 90, 120);
        assertThat(KernelChecks.generations(new byte[64])).isEmpty();
        assertThat(KernelChecks.generations(new byte[3])).isEmpty();
        byte[] cutOff = java.util.Arrays.copyOf(container(2, 80, 2, 90), 100);
        assertThat(KernelChecks.generations(cutOff)).containsExactly(80);
    }

    @Test
    void kernelsRunOnTheirGenerationAndOnLaterOnesOfTheSameMajorVersion() {
        SortedSet<Integer> built = set(80, 90);
        assertThat(KernelChecks.kernels(built, set(86, 90), Optional.empty()))
                .isEqualTo(new Check("kernels", State.OK, "for sm_80, sm_90", List.of(Need.CUDA)));
        assertThat(KernelChecks.kernels(built, set(), Optional.empty()).state()).isEqualTo(State.OK);
        Check older = KernelChecks.kernels(built, set(75), Optional.empty());
        assertThat(older.state()).isEqualTo(State.MISSING);
        assertThat(older.detail()).contains("for sm_80, sm_90, and the GPU's generation is sm_75", "nvcc");
        assertThat(KernelChecks.kernels(built, set(90, 100), Optional.empty()).state())
                .isEqualTo(State.MISSING);
        assertThat(KernelChecks.kernels(set(), set(90), Optional.empty()).state())
                .isEqualTo(State.MISSING);
    }

    @Test
    void whereTheyCanBeCompiledTheyAreNotMissing() {
        Check check = KernelChecks.kernels(set(), set(90), Optional.of("NVRTC 13.0"));
        assertThat(check.state()).isEqualTo(State.NOTE);
        assertThat(check.detail())
                .isEqualTo(
                        "none in this build, and the GPU's generation is sm_90; NVRTC 13.0 compiles them at the first"
                                + " use");
        assertThat(check.blocks(Need.CUDA)).isFalse();
    }

    @Test
    void capabilitiesAreReadFromNvidiaSmi() {
        assertThat(GpuChecks.capabilities(List.of("9.0", "9.0", "12.0 ", "N/A", "nvidia-smi did not answer in 10 s")))
                .containsExactly(90, 120);
    }
}
