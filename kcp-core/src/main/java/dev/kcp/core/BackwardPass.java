package dev.kcp.core;

import dev.kcp.conv.ConvChecks;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Shard;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;

/** The programs of one backward on one rank, with what they need until it ends. */
final class BackwardPass implements AutoCloseable {
    private final KcpContext context;
    private final ConvEngine engine;
    private final Shard shard;
    private final ConvOptions options;
    private final List<Operands> operands;
    private final List<ConvGradients> gradients;
    private final List<Tensor> head = new ArrayList<>();
    private final List<Tensor> tail = new ArrayList<>();
    private final List<Tensor> received = new ArrayList<>();
    private final List<PartialGradients> sums = new ArrayList<>();
    private boolean done;

    /** @throws IllegalArgumentException if a gradient has the wrong shape or type */
    BackwardPass(
            KcpConv1d call,
            KcpContext context,
            ConvOptions options,
            List<Operands> operands,
            List<ConvGradients> gradients) {
        this.context = context;
        this.engine = context.engine();
        this.shard = context.shard();
        this.options = options;
        this.operands = operands;
        this.gradients = List.copyOf(gradients);
        for (int i = 0; i < operands.size(); i++) {
            Tensor x = operands.get(i).x();
            ConvGradients one = gradients.get(i);
            if (one.dy() != null) {
                ConvChecks.rowsLike(x, "dy", one.dy());
            }
            if (one.dx() != null) {
                ConvChecks.rowsLike(x, "dx", one.dx());
            }
            context.callerHistory().checkShape(x, "dHistory", one.dHistory());
        }
        checkApart();
        for (int i = 0; i < operands.size(); i++) {
            Operands in = operands.get(i);
            long channels = in.channels();
            head.add(engine.allocate(DType.F32, shard.headRows(), channels));
            tail.add(engine.allocate(DType.F32, shard.tailRows(), channels));
            received.add(engine.allocate(DType.F32, context.backwardPoolRows(), channels));
            Tensor nodes = engine.allocate(options.policy().sumType(), shard.nodeCount(), in.sumPlanes(), channels);
            sums.add(new PartialGradients(call, context, i, in.bias() != null, nodes));
        }
    }

    private void checkApart() {
        Apart apart = new Apart();
        for (int i = 0; i < operands.size(); i++) {
            Operands in = operands.get(i);
            ConvGradients one = gradients.get(i);
            String of = operands.size() == 1 ? "" : "[" + i + "]";
            apart.input("x" + of, in.x());
            apart.input("weight" + of, in.weight());
            apart.input("bias" + of, in.bias());
            apart.input("dy" + of, one.dy());
            apart.output("dx" + of, one.dx());
            apart.output("dHistory" + of, one.dHistory());
        }
        apart.check();
    }

    /** g of the rows that others wait for. */
    void head() {
        for (int i = 0; i < operands.size(); i++) {
            engine.head(shard, operands.get(i), options, gradients.get(i).dy(), head.get(i));
        }
    }

    List<HaloTransfers.Source> sources() {
        return head.stream().map(rows -> new HaloTransfers.Source(rows, null)).toList();
    }

    List<Tensor> received() {
        return received;
    }

    void main() {
        for (int i = 0; i < operands.size(); i++) {
            ConvGradients one = gradients.get(i);
            engine.main(
                    shard,
                    operands.get(i),
                    options,
                    one.dy(),
                    one.dx(),
                    tail.get(i),
                    sums.get(i).sums());
        }
    }

    /** dx of the rows that waited for others; gives the sums away. */
    List<PartialGradients> owed() {
        for (int i = 0; i < operands.size(); i++) {
            ConvGradients one = gradients.get(i);
            if (one.dx() != null) {
                engine.owed(shard, operands.get(i), tail.get(i), received.get(i), one.dx());
            }
            if (one.dHistory() != null) {
                context.callerHistory().writeGradient(operands.get(i), received.get(i), one.dHistory());
            }
        }
        done = true;
        return List.copyOf(sums);
    }

    @Override
    public void close() {
        try (CloseStack owned = new CloseStack()) {
            if (!done) {
                sums.forEach(owned::push);
            }
            received.forEach(owned::push);
            tail.forEach(owned::push);
            head.forEach(owned::push);
        }
    }
}
