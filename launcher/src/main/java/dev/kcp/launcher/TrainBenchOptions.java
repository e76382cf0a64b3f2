package dev.kcp.launcher;

import dev.kcp.bench.BenchRow;
import dev.kcp.bench.BenchShape;
import dev.kcp.bench.TrainBench;
import dev.kcp.comm.Communicator;
import dev.kcp.conv.tree.NodeStack;
import dev.kcp.core.Layout;
import dev.kcp.train.ModelShape;
import dev.kcp.train.TrainConfig;
import dev.kcp.train.TrainEngine;
import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine.Option;

/** The options of {@code kcp bench train} alone. */
final class TrainBenchOptions {
    @Option(
            names = "--layers",
            defaultValue = "4",
            paramLabel = "L",
            description = "train: layers of the model (${DEFAULT-VALUE}).")
    private int layers;

    @Option(
            names = "--align",
            defaultValue = "64",
            paramLabel = "N",
            description = "train: batches are cut at multiples of N tokens (${DEFAULT-VALUE}).")
    private int align;

    /**
     * Measures every shape; collective.
     *
     * @param shapes one rank's share of the tokens and documents of a batch
     * @param iterations timed steps of each round
     */
    List<BenchRow> rows(
            Communicator communicator, TrainEngine engine, List<BenchShape> shapes, Layout layout, int iterations) {
        List<BenchRow> rows = new ArrayList<>();
        for (BenchShape shape : shapes) {
            TrainConfig config = new TrainConfig(
                    new ModelShape(layers, shape.channels()),
                    Math.multiplyExact(shape.tokens(), communicator.size()),
                    TrainBench.steps(iterations),
                    1,
                    1e-3,
                    0.1,
                    1,
                    layout,
                    align,
                    true,
                    align % NodeStack.LEAF_TOKENS == 0);
            rows.addAll(new TrainBench(communicator, engine, iterations)
                    .run(config, shape.documents() * communicator.size()));
        }
        return rows;
    }
}
