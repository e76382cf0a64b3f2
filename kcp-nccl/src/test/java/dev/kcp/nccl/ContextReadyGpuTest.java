package dev.kcp.nccl;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalCommunicator;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.core.CuSeqlens;
import dev.kcp.core.KcpContext;
import dev.kcp.core.Layout;
import dev.kcp.core.Partition;
import dev.kcp.cuda.CudaEvent;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.NeedsGpu;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.ValueLayout;
import org.junit.jupiter.api.Test;

/** {@link KcpContext#waitReady} on a GPU: another stream waits for the batch's tables, and the host does not. */
@NeedsGpu
class ContextReadyGpuTest {
    private static final long BYTES = 1L << 30;
    /** About 60 ms of an H200, thousands of times what the other stream needs. */
    private static final int FILLS = 200;

    private static final byte MARK = 0x3C;
    private static final int MARK_BYTES = 256;

    @Test
    void aStreamThatWaitsComesBehindTheTablesAndTheHostGoesOn() {
        assertThat(markSeen(true)).as("seen behind the tables").containsOnly(MARK);
        // The work ahead of the tables is long enough for the test above to mean something.
        assertThat(markSeen(false))
                .as("seen by a stream that waits for nothing")
                .containsOnly((byte) 0);
    }

    /** What another stream reads of memory that the engine's stream writes right behind the copy of the tables. */
    private static byte[] markSeen(boolean waits) {
        Partition first = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(9, 7), 1, 1);
        Partition second = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(3, 13), 1, 1);
        Communicator alone = LocalCommunicator.group(1, GpuRanks.DEADLINE).getFirst();
        try (alone;
                CudaConvEngine engine = CudaConvEngine.open(0);
                CudaStream other = CudaStream.create(engine.stream().device());
                KcpContext context = KcpContext.updatable(first, 2, alone, engine);
                Memory busy = engine.stream().allocate(BYTES);
                Tensor mark = engine.stream().zeros(DType.BF16, 1, MARK_BYTES / 2);
                Tensor seen = engine.stream().zeros(DType.BF16, 1, MARK_BYTES / 2);
                CudaEvent queued = CudaEvent.untimed(engine.stream().device())) {
            CudaStream stream = engine.stream();
            stream.synchronize();
            for (int i = 0; i < FILLS; i++) {
                stream.fill(busy.address(), (byte) i, BYTES);
            }
            context.update(second);
            stream.fill(mark.address(), MARK, MARK_BYTES);
            queued.record(stream);
            if (waits) {
                context.waitReady(other.handle());
                assertThat(queued.isReached()).as("the host waited").isFalse();
            }
            other.copy(mark.address(), seen.address(), MARK_BYTES);
            other.synchronize();
            stream.synchronize();
            try (Tensor host = stream.download(seen)) {
                return host.segment().toArray(ValueLayout.JAVA_BYTE);
            }
        }
    }
}
