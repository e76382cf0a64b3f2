package dev.kcp.core;

import static dev.kcp.conv.Tolerance.assertSameBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.kcp.KcpException;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalRanks;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.HashMap;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** Each line of the handle's phase table, on two ranks that cut one document. */
class RecomputeHandleTest {
    private static final int CHANNELS = 16;

    /** One rank of a batch of one document of 16 tokens, cut in the middle. */
    private static final class Rank implements AutoCloseable {
        final Communicator communicator;
        final CpuConvEngine engine = new CpuConvEngine(1);
        final Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(16), 2, 1);
        final KcpContext context;
        final ConvCase in = ConvCase.random(1, CHANNELS, 16);
        final Tensor x = Tensor.zeros(DType.BF16, 8, CHANNELS);
        final Tensor y = Tensor.zeros(DType.BF16, 8, CHANNELS);
        final KcpConv1d conv = new KcpConv1d("layer0", ConvOptions.DEFAULT);

        Rank(Communicator communicator) {
            this.communicator = communicator;
            context = new KcpContext(partition, communicator, engine);
            Shards.take(partition, communicator.rank(), in.x(), x);
        }

        Saved forward(KcpConv1d call, RecomputeHandle handle) {
            return call.forward(context, x, in.weight(), null, y, handle);
        }

        void forwardAndDrop(RecomputeHandle handle) {
            forward(conv, handle).close();
        }

        @Override
        public void close() {
            in.close();
            x.close();
            y.close();
            context.close();
            engine.close();
        }
    }

    private static void onTwoRanks(Consumer<Rank> body) {
        LocalRanks.run(2, Sharded.DEADLINE, communicator -> {
            try (Rank rank = new Rank(communicator)) {
                body.accept(rank);
                return null;
            }
        });
    }

    @Test
    void forwardFillsAnEmptyHandleAndRecomputeExchangesNothing() {
        onTwoRanks(rank -> {
            RecomputeHandle handle = RecomputeHandle.create();
            try (Checkpoint region = Checkpoint.of(handle)) {
                region.forward(() -> {
                    rank.forwardAndDrop(handle);
                    return null;
                });
                assertThat(handle.entries()).containsOnlyKeys("conv");
                assertThat(handle.nbytes()).isEqualTo(rank.communicator.rank() == 0 ? 0 : 3L * CHANNELS * 2);
                byte[] first = rank.y.segment().toArray(java.lang.foreign.ValueLayout.JAVA_BYTE);
                for (int time = 0; time < 2; time++) {
                    rank.y.segment().fill((byte) 0xFF);
                    region.recompute(() -> rank.forward(rank.conv, handle)).close();
                    assertThat(rank.y.segment().toArray(java.lang.foreign.ValueLayout.JAVA_BYTE))
                            .isEqualTo(first);
                }
            }
            assertThat(rank.conv.exchanges()).isEqualTo(new ExchangeCounts(1, 0, 0));
            handle.clear();
            assertThat(handle.nbytes()).isZero();
        });
    }

    @Test
    void handleFromOutsideTwoNestedRegionsServesBothRecomputes() {
        onTwoRanks(rank -> {
            RecomputeHandle handle = RecomputeHandle.create();
            nested(rank, () -> handle);
            assertThat(rank.conv.exchanges()).isEqualTo(new ExchangeCounts(1, 0, 1));
        });
    }

    @Test
    void handleMadeBetweenTwoNestedRegionsExchangesInTheOuterRecompute() {
        onTwoRanks(rank -> {
            nested(rank, RecomputeHandle::create);
            assertThat(rank.conv.exchanges()).isEqualTo(new ExchangeCounts(1, 1, 1));
        });
    }

    /** Outer forward, outer recompute (which runs the inner forward), inner recompute, backward. */
    private static void nested(Rank rank, java.util.function.Supplier<RecomputeHandle> handles) {
        try (Checkpoint outer = Checkpoint.of()) {
            RecomputeHandle first = handles.get();
            outer.forward(() -> {
                try (Checkpoint inner = Checkpoint.of(first)) {
                    inner.forward(() -> {
                        rank.forwardAndDrop(first);
                        return null;
                    });
                }
                return null;
            });
            RecomputeHandle again = handles.get();
            outer.recompute(() -> {
                try (Checkpoint inner = Checkpoint.of(again)) {
                    inner.forward(() -> {
                        rank.forwardAndDrop(again);
                        return null;
                    });
                    try (Saved saved = inner.recompute(() -> rank.forward(rank.conv, again));
                            PartialGradients sums = rank.conv.backward(saved, null, null)) {
                        assertThat(sums.sums().rows()).isPositive();
                    }
                }
                return null;
            });
            first.clear();
            again.clear();
        }
    }

    /** Both ranks make the same mistake; one refuses, the other does too or learns its peer's reason while it waits. */
    private static void assertRefused(Consumer<Rank> mistake, String reason) {
        assertThatThrownBy(() -> onTwoRanks(mistake))
                .isInstanceOfAny(IllegalStateException.class, KcpException.class)
                .hasMessageContaining(reason)
                .hasMessageContaining("layer");
    }

    @Test
    void forwardRefusesAFilledHandle() {
        assertRefused(
                rank -> {
                    RecomputeHandle handle = RecomputeHandle.create();
                    rank.forwardAndDrop(handle);
                    rank.communicator.barrier("both filled");
                    rank.forwardAndDrop(handle);
                },
                "filled already");
    }

    @Test
    void recomputeRefusesAClearedHandle() {
        assertRefused(
                rank -> {
                    RecomputeHandle handle = RecomputeHandle.create();
                    rank.forwardAndDrop(handle);
                    handle.clear();
                    rank.communicator.barrier("both cleared");
                    Phase.RECOMPUTE.call(() -> rank.forward(rank.conv, handle));
                },
                "cleared");
    }

    @Test
    void recomputeRefusesTheEntryOfAnotherLayer() {
        assertRefused(
                rank -> {
                    RecomputeHandle handle = RecomputeHandle.create();
                    rank.forwardAndDrop(handle);
                    rank.communicator.barrier("both filled");
                    KcpConv1d other = new KcpConv1d("layer1", ConvOptions.DEFAULT);
                    Phase.RECOMPUTE.call(() -> rank.forward(other, handle));
                },
                "entryOf=layer0 call=layer1");
    }

    @Test
    void recomputeRefusesTheEntryOfAnotherBatch() {
        assertRefused(
                rank -> {
                    RecomputeHandle handle = RecomputeHandle.create();
                    rank.forwardAndDrop(handle);
                    rank.communicator.barrier("both filled");
                    KcpContext next = new KcpContext(rank.partition, rank.communicator, rank.engine);
                    Phase.RECOMPUTE.call(() -> rank.conv.forward(next, rank.x, rank.in.weight(), null, rank.y, handle));
                },
                "another call");
    }

    @Test
    void clearIsRefusedWhileARegionNeedsTheHandle() {
        assertThatIllegalStateException()
                .isThrownBy(() -> onTwoRanks(rank -> {
                    RecomputeHandle handle = RecomputeHandle.create();
                    try (Checkpoint region = Checkpoint.of(handle)) {
                        region.forward(() -> {
                            rank.forwardAndDrop(handle);
                            return null;
                        });
                        rank.communicator.barrier("both filled");
                        handle.clear();
                    }
                }))
                .withMessageContaining("pendingRegions=1");
    }

    @Test
    void aRefusedClearEndsTheOtherRanksToo() {
        Queue<String> told = new ConcurrentLinkedQueue<>();
        assertThatIllegalStateException()
                .isThrownBy(() -> onTwoRanks(rank -> {
                    RecomputeHandle handle = RecomputeHandle.create();
                    try (Checkpoint region = Checkpoint.of(handle)) {
                        region.forward(() -> {
                            rank.forwardAndDrop(handle);
                            return null;
                        });
                        rank.communicator.barrier("both filled");
                        if (rank.communicator.rank() == 0) {
                            try {
                                handle.clear();
                            } catch (IllegalStateException refused) {
                                // Whoever goes on all the same learns at its next call that the group has ended.
                                told.add(assertThrows(KcpException.class, () -> rank.communicator.barrier("caught"))
                                        .getMessage());
                                throw refused;
                            }
                        } else {
                            rank.communicator.barrier("never");
                        }
                    }
                }))
                .withMessageContaining("call=layer0 pendingRegions=1");
        assertThat(told).singleElement().asString().contains("rank 0 failed: layer0: the handle is needed");
    }

    @Test
    void anyObjectWithEntriesServesAndForeignKeysStay() {
        onTwoRanks(rank -> {
            Map<String, Object> mine = new HashMap<>(Map.of("attention", "kept"));
            RecomputeHandle handle = () -> mine;
            rank.forwardAndDrop(handle);
            Phase.RECOMPUTE.call(() -> rank.forward(rank.conv, handle)).close();
            handle.clear();
            assertThat(mine).containsEntry("attention", "kept");
            assertThat(rank.conv.exchanges()).isEqualTo(new ExchangeCounts(1, 0, 0));
        });
    }

    @Test
    void ranksMayRecomputeInAnotherOrderAndByAnotherPolicy() {
        onTwoRanks(rank -> {
            KcpConv1d[] layers = {
                new KcpConv1d("layerA", ConvOptions.DEFAULT), new KcpConv1d("layerB", ConvOptions.DEFAULT)
            };
            RecomputeHandle[] handles = {RecomputeHandle.create(), RecomputeHandle.create()};
            Saved[] saved = {rank.forward(layers[0], handles[0]), rank.forward(layers[1], handles[1])};
            int[] order = rank.communicator.rank() == 0 ? new int[] {0, 1} : new int[] {1};
            for (int layer : order) {
                saved[layer].close();
                saved[layer] = Phase.RECOMPUTE.call(() -> rank.forward(layers[layer], handles[layer]));
            }
            for (int layer = 1; layer >= 0; layer--) {
                layers[layer].backward(saved[layer], rank.x, null).close();
                saved[layer].close();
                handles[layer].clear();
                assertThat(layers[layer].exchanges()).isEqualTo(new ExchangeCounts(1, 0, 1));
            }
        });
    }

    @Test
    void theSavedSetKeepsTheRowsThatAClearedHandleLetGo() {
        onTwoRanks(rank -> {
            RecomputeHandle handle = RecomputeHandle.create();
            try (Tensor with = Tensor.zeros(DType.BF16, 8, CHANNELS);
                    Tensor without = Tensor.zeros(DType.BF16, 8, CHANNELS);
                    Saved kept = rank.forward(rank.conv, handle)) {
                handle.clear();
                rank.conv.backward(kept, rank.x, with).close();
                try (Saved plain = rank.forward(rank.conv, null)) {
                    rank.conv.backward(plain, rank.x, without).close();
                }
                assertSameBits("dx", with, without);
            }
        });
    }
}
