package dev.kcp.conv;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;

class CpuWorkspaceTest extends WorkspaceContract {
    /** One channel at a time: vectors have the same bits, and a process's first moments are too short for them. */
    private static final CpuConvEngine ENGINE = new CpuConvEngine(2, false);

    @AfterAll
    static void closeEngine() {
        ENGINE.close();
    }

    @Override
    ConvEngine engine() {
        return ENGINE;
    }

    @Override
    Tensor place(Tensor host) {
        return host(host);
    }

    @Override
    Tensor host(Tensor placed) {
        Tensor copy = Tensor.zeros(placed.dtype(), placed.shape());
        HostMemory.copy(
                placed.address(),
                copy.address(),
                placed.elements() * placed.dtype().bytes());
        return copy;
    }

    @Override
    void fill(Memory memory, byte value) {
        memory.segment().fill(value);
    }

    @Test
    void bytesPerChannelAreAsDocumented() {
        CausalConv1d conv = new CausalConv1d(ENGINE, ConvOptions.DEFAULT);
        for (long rows : new long[] {0, 1, 1 << 20}) {
            assertThat(conv.forwardWorkspaceBytes(rows, 4096)).isEqualTo(24 * 4096);
            assertThat(conv.backwardWorkspaceBytes(rows, 4096)).isEqualTo(64 * 4096);
        }
    }

    @Test
    void aDeviceThatIsNotThereIsNotSupported() {
        assertThat(CausalConv1d.isSupported(new Device(Device.Kind.CUDA, 1000))).isFalse();
    }
}
