package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.comm.LocalRanks;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.Eventually;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.core.CuSeqlens;
import dev.kcp.core.KcpContext;
import dev.kcp.core.Layout;
import dev.kcp.core.Partition;
import java.util.Arrays;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

class BatchContextTest {
    private static final int TOKENS = 256;

    /** A batch of so many documents of one length. */
    private static Partition batch(Layout layout, int documents) {
        int[] lengths = new int[documents];
        Arrays.fill(lengths, TOKENS / documents);
        return Partition.of(layout, CuSeqlens.ofLengths(lengths), 1, 64);
    }

    private static void withContext(Layout layout, Consumer<BatchContext> body) {
        TrainConfig config = new TrainConfig(new ModelShape(1, 8), TOKENS, 1, 1, 0.01, 0, 1, layout, 64, true, true);
        LocalRanks.run(1, Eventually.LIMIT, communicator -> {
            try (ConvEngine conv = new CpuConvEngine(1);
                    BatchContext batches = new BatchContext(config, communicator, conv)) {
                body.accept(batches);
            }
            return null;
        });
    }

    @Test
    void batchesCutAtTheSameTokensShareAContextUntilTheirDocumentsNeedMoreRoom() {
        withContext(Layout.CONTIGUOUS, batches -> {
            assertThat(batches.isKept()).isTrue();
            batches.take(batch(Layout.CONTIGUOUS, 8));
            KcpContext first = batches.context();
            batches.take(batch(Layout.CONTIGUOUS, 16));
            assertThat(batches.context()).isSameAs(first);
            assertThat(first.partition().cuSeqlens().documents()).isEqualTo(16);
            batches.take(batch(Layout.CONTIGUOUS, 32));
            assertThat(batches.context()).isNotSameAs(first);
            assertThat(batches.context().partition().cuSeqlens().documents()).isEqualTo(32);
            KcpContext second = batches.context();
            batches.take(batch(Layout.CONTIGUOUS, 1));
            assertThat(batches.context()).isSameAs(second);
        });
    }

    @Test
    void batchesCutByDocumentHaveEachItsOwnContext() {
        withContext(Layout.ZIGZAG_PER_DOCUMENT, batches -> {
            assertThat(batches.isKept()).isFalse();
            batches.take(batch(Layout.ZIGZAG_PER_DOCUMENT, 4));
            KcpContext first = batches.context();
            batches.take(batch(Layout.ZIGZAG_PER_DOCUMENT, 4));
            assertThat(batches.context()).isNotSameAs(first);
        });
    }
}
