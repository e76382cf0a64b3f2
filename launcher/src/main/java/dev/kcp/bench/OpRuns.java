package dev.kcp.bench;

import dev.kcp.conv.CausalConv1d;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The single-rank op on tensors of one shape, to be run again and again: on several sets of tensors in turn, so that a set
 * may have left the cache before its turn comes.
 */
final class OpRuns implements Runnable, AutoCloseable {
    /** Tensors of one call. */
    private record Buffers(Tensor x, Tensor dy, Tensor out) {}

    private final ConvEngine engine;
    private final ConvOptions options;
    private final ConvPass pass;
    private final BenchShape shape;
    private final CausalConv1d conv;
    private final List<Tensor> owned = new ArrayList<>();
    private final List<Buffers> sets = new ArrayList<>();
    private final Tensor weight;
    private final Tensor dweight;
    private final Tensor cuSeqlens;
    private int calls;

    OpRuns(ConvEngine engine, ConvOptions options, ConvPass pass, BenchShape shape, int setCount) {
        this.engine = engine;
        this.options = options;
        this.pass = pass;
        this.shape = shape;
        conv = new CausalConv1d(engine, options);
        try {
            for (int i = 0; i < setCount; i++) {
                Tensor x = keep(RandomRows.normal(engine, shape.tokens(), shape.channels()));
                Tensor dy = pass == ConvPass.BACKWARD
                        ? keep(RandomRows.normal(engine, shape.tokens(), shape.channels()))
                        : null;
                sets.add(new Buffers(x, dy, keep(engine.allocate(DType.BF16, shape.tokens(), shape.channels()))));
            }
            weight = keep(RandomRows.taps(engine, shape.channels()));
            dweight = keep(engine.allocate(DType.F32, shape.channels(), 4));
            cuSeqlens = keep(RandomRows.ints(engine, shape.offsets()));
        } catch (RuntimeException | Error e) {
            close();
            throw e;
        }
    }

    private Tensor keep(Tensor tensor) {
        owned.add(tensor);
        return tensor;
    }

    /** One call. */
    @Override
    public void run() {
        Buffers set = sets.get(calls++ % sets.size());
        if (pass == ConvPass.BACKWARD) {
            conv.backward(set.x(), weight, null, cuSeqlens, set.dy(), new Gradients(set.out(), dweight, null));
        } else {
            conv.forward(set.x(), weight, null, cuSeqlens, set.out());
        }
    }

    /**
     * What was measured of these calls.
     *
     * @param millis of each timed call
     * @param threads of the CPU, or 0 on a GPU
     * @param gigabytesPerSecond of a copy in the same run
     */
    BenchRow row(double[] millis, int threads, double gigabytesPerSecond) {
        long bytes = (long) shape.tokens() * shape.channels() * pass.bytesOfElement();
        List<String> programs =
                engine.programs(new ConvEngine.Operands(sets.getFirst().x(), weight, null, null), options, false);
        return new BenchRow(
                pass.label(),
                shape.tokens(),
                shape.channels(),
                shape.documents(),
                programs.get(pass.ordinal()),
                threads,
                millis.length,
                BenchRow.median(millis),
                Arrays.stream(millis).min().orElseThrow(),
                bytes,
                bytes / gigabytesPerSecond / 1e6);
    }

    @Override
    public void close() {
        CloseStack.closeAll(owned);
    }
}
