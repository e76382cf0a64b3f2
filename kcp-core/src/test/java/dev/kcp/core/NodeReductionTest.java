package dev.kcp.core;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import dev.kcp.comm.Call;
import dev.kcp.comm.LocalRanks;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.Eventually;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.conv.tree.NodeKey;
import dev.kcp.conv.tree.NodeStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class NodeReductionTest {
    private static final Duration DEADLINE = Eventually.LIMIT;

    /** Nodes of one rank, with their sums: elements of one node after another. */
    private record Share(List<NodeKey> keys, List<double[]> sums) {}

    /** A tree of leaves that are dealt out over ranks, and the root that one rank alone makes of them. */
    private record Dealt(long tokens, List<Share> ranks, double[] root) {
        List<List<NodeKey>> keys() {
            return ranks.stream().map(Share::keys).toList();
        }
    }

    @ParameterizedTest(name = "{0} ranks, {1}, {2} planes of {3} channels in units of {4}")
    @CsvSource({
        "1,F32,1,48,16",
        "1,F64,5,24,1",
        "2,F32,1,48,16",
        "2,F32,5,24,1",
        "3,F64,1,1,1",
        "3,F64,4,40,1",
        "4,F32,1,64,16",
        "5,F32,5,3,1",
    })
    void rootHasTheBitsOfOneRankWhateverTheBatch(int ranks, DType dtype, int planes, int channels, int unit) {
        Random random = new Random(31L * ranks + planes);
        // From batch to batch there are more and fewer nodes than before, and ranks with none.
        List<Dealt> batches = new ArrayList<>();
        for (int tokens : new int[] {7, 1, 64, 2, 64 * 5 - 3, 64 * 23, 1, 64 * 16, 64 * 16, 64 * 40 + 9}) {
            batches.add(deal(random, tokens, ranks, planes * channels, dtype));
        }
        LocalRanks.run(ranks, DEADLINE, communicator -> {
            try (ConvEngine engine = new CpuConvEngine(1);
                    NodeReduction reduction =
                            new NodeReduction("sums", engine, communicator, dtype, planes, channels, unit);
                    Tensor root = engine.allocate(dtype, planes, channels)) {
                for (Dealt batch : batches) {
                    Share mine = batch.ranks().get(communicator.rank());
                    reduction.prepare(batch.tokens(), batch.keys());
                    try (Tensor nodes = tensor(engine, dtype, mine.sums(), planes, channels)) {
                        reduction.run(nodes, root);
                        reduction.run(nodes, root);
                        assertThat(numbers(root)).isEqualTo(batch.root());
                        assertThat(numbers(nodes))
                                .as("nodes are left as they were")
                                .isEqualTo(flat(mine.sums()));
                    }
                }
            }
            return null;
        });
    }

    @Test
    void eachElementOfANodeIsSentOnceToTheRankOfItsSlice() {
        Dealt batch = deal(new Random(4), 64 * 12, 3, 48, DType.F32);
        LocalRanks.run(3, DEADLINE, communicator -> {
            int rank = communicator.rank();
            Share mine = batch.ranks().get(rank);
            try (ConvEngine engine = new CpuConvEngine(1);
                    NodeReduction reduction = new NodeReduction("sums", engine, communicator, DType.F32, 1, 48, 16);
                    Tensor nodes = tensor(engine, DType.F32, mine.sums(), 1, 48);
                    Tensor root = engine.allocate(DType.F32, 48)) {
                reduction.prepare(batch.tokens(), batch.keys());
                reduction.run(nodes, root);
                assertThat(communicator.stats().bytesSent(Call.Kind.EXCHANGE))
                        .isEqualTo(4L * (mine.keys().size() * 32L + 2 * 16));
            }
            return null;
        });
    }

    @Test
    void wrongUseIsRefusedWithTheValues() {
        LocalRanks.run(1, DEADLINE, alone -> {
            try (ConvEngine engine = new CpuConvEngine(1);
                    NodeReduction reduction = new NodeReduction("sums", engine, alone, DType.F32, 1, 8, 8);
                    Tensor node = engine.allocate(DType.F32, 1, 8)) {
                assertThatThrownBy(() -> reduction.run(node, node))
                        .isInstanceOf(IllegalStateException.class)
                        .hasMessageEndingWith("call=sums");
                assertThatThrownBy(() -> reduction.prepare(64, List.of(List.of(), List.of())))
                        .isInstanceOf(IllegalArgumentException.class)
                        .hasMessageEndingWith("nodes=2 communicatorSize=1");
                List<NodeKey> gap = List.of(NodeKey.whole(0, 0), NodeKey.whole(0, 2));
                assertThatThrownBy(() -> reduction.prepare(3 * 64, List.of(gap)))
                        .isInstanceOf(IllegalStateException.class)
                        .hasMessageContaining("the tree did not close: roots=2");
                assertThatThrownBy(() -> new NodeReduction("sums", engine, alone, DType.BF16, 1, 8, 1))
                        .isInstanceOf(IllegalArgumentException.class)
                        .hasMessageEndingWith("dtype=BF16");
                assertThatThrownBy(() -> new NodeReduction("sums", engine, alone, DType.F32, 1, 24, 16))
                        .isInstanceOf(IllegalArgumentException.class)
                        .hasMessageEndingWith("channels=24 unit=16");
            }
            return null;
        });
    }

    /** One rank gives wrong memory; the other is told why and does not wait. */
    @ParameterizedTest
    @CsvSource({
        "nodes, 1, 8, F32, false",
        "nodes, 3, 8, F32, false",
        "nodes, 2, 8, F64, false",
        "nodes, 0, 8, F32, true",
        "root, 1, 4, F32, false",
        "root, 2, 8, F32, false",
        "root, 1, 8, F64, false",
        "root, 0, 8, F32, true",
    })
    void nodesAndRootsOfOtherSizesAndTypesAreRefusedBeforeAnyExchange(
            String which, int rows, int columns, DType dtype, boolean missing) {
        Queue<String> told = new ConcurrentLinkedQueue<>();
        List<List<NodeKey>> keys = List.of(
                List.of(NodeKey.whole(0, 0), NodeKey.whole(0, 2)), List.of(NodeKey.whole(0, 1), NodeKey.whole(0, 3)));
        assertThatThrownBy(() -> LocalRanks.run(2, DEADLINE, communicator -> {
                    boolean isWrong = communicator.rank() == 1;
                    try (ConvEngine engine = new CpuConvEngine(1);
                            NodeReduction reduction =
                                    new NodeReduction("sums", engine, communicator, DType.F32, 1, 8, 8);
                            Tensor nodes = engine.allocate(DType.F32, 2, 8);
                            Tensor root = engine.allocate(DType.F32, 8);
                            Tensor wrong = missing ? null : engine.allocate(dtype, rows, columns)) {
                        reduction.prepare(4 * 64, keys);
                        reduction.run(
                                isWrong && which.equals("nodes") ? wrong : nodes,
                                isWrong && which.equals("root") ? wrong : root);
                        return null;
                    } catch (KcpException e) {
                        told.add(e.getMessage());
                        throw e;
                    }
                }))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("call=sums " + which + "=");
        assertThat(told).singleElement().asString().startsWith("rank 1 failed: sums: " + which + " must be dense");
    }

    @Test
    void aRootOverItsNodesAndATreeWithoutItsFirstLeafAreRefused() {
        LocalRanks.run(1, DEADLINE, alone -> {
            try (ConvEngine engine = new CpuConvEngine(1);
                    NodeReduction reduction = new NodeReduction("sums", engine, alone, DType.F32, 1, 8, 8);
                    Tensor nodes = engine.allocate(DType.F32, 2, 8)) {
                for (NodeKey far : List.of(NodeKey.whole(0, 1), NodeKey.whole(1, 1))) {
                    assertThatThrownBy(() -> reduction.prepare(4 * 64, List.of(List.of(far))))
                            .isInstanceOf(IllegalStateException.class);
                }
                reduction.prepare(2 * 64, List.of(List.of(NodeKey.whole(0, 0), NodeKey.whole(0, 1))));
                assertThatThrownBy(() -> reduction.run(nodes, nodes.rows(1, 2)))
                        .isInstanceOf(IllegalArgumentException.class)
                        .hasMessageStartingWith("root overlaps nodes");
            }
            return null;
        });
    }

    /** Runs of leaves, each to a random rank; a rank's nodes are the largest that its leaves make. */
    private static Dealt deal(Random random, int tokens, int ranks, int elements, DType dtype) {
        List<NodeStack<double[]>> stacks = new ArrayList<>();
        for (int rank = 0; rank < ranks; rank++) {
            stacks.add(stack(tokens, dtype));
        }
        NodeStack<double[]> alone = stack(tokens, dtype);
        int owner = random.nextInt(ranks);
        for (int leaf = 0; leaf < NodeStack.leaves(tokens); leaf++) {
            owner = random.nextInt(3) == 0 ? random.nextInt(ranks) : owner;
            double[] sums = new double[elements];
            for (int i = 0; i < elements; i++) {
                sums[i] = (float) random.nextGaussian();
            }
            stacks.get(owner).push(NodeKey.whole(0, leaf), sums.clone());
            alone.push(NodeKey.whole(0, leaf), sums.clone());
        }
        List<Share> shares = stacks.stream()
                .map(stack -> new Share(
                        stack.entries().stream().map(NodeStack.Entry::key).toList(),
                        stack.entries().stream().map(NodeStack.Entry::sums).toList()))
                .toList();
        return new Dealt(tokens, shares, alone.entries().getFirst().sums());
    }

    private static NodeStack<double[]> stack(int tokens, DType dtype) {
        return new NodeStack<>(tokens, (left, right) -> {
            for (int i = 0; i < left.length; i++) {
                left[i] = dtype == DType.F32 ? (float) left[i] + (float) right[i] : left[i] + right[i];
            }
            return left;
        });
    }

    private static Tensor tensor(ConvEngine engine, DType dtype, List<double[]> nodes, int planes, int channels) {
        Tensor tensor = engine.allocate(dtype, nodes.size(), planes, channels);
        double[] numbers = flat(nodes);
        for (int i = 0; i < numbers.length; i++) {
            if (dtype == DType.F32) {
                tensor.segment().setAtIndex(ValueLayout.JAVA_FLOAT, i, (float) numbers[i]);
            } else {
                tensor.segment().setAtIndex(ValueLayout.JAVA_DOUBLE, i, numbers[i]);
            }
        }
        return tensor;
    }

    private static double[] flat(List<double[]> nodes) {
        return nodes.stream().flatMapToDouble(Arrays::stream).toArray();
    }

    private static double[] numbers(Tensor tensor) {
        double[] numbers = new double[(int) tensor.elements()];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = tensor.dtype() == DType.F32
                    ? tensor.segment().getAtIndex(ValueLayout.JAVA_FLOAT, i)
                    : tensor.segment().getAtIndex(ValueLayout.JAVA_DOUBLE, i);
        }
        return numbers;
    }
}
