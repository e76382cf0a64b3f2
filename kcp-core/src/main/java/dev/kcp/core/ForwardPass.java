package dev.kcp.core;

import dev.kcp.conv.ConvChecks;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Shard;
import dev.kcp.tensor.Tensor;
import java.util.List;

/** The programs of one forward on one rank, whether its history rows are on their way or were kept by a handle. */
final class ForwardPass {
    private final KcpContext context;
    private final ConvEngine engine;
    private final Shard shard;
    private final ConvOptions options;
    private final List<ConvArguments> arguments;
    private final HistoryPool pool;
    private final List<Operands> operands;

    /** @param pool of these arguments; filled before {@link #seam}, borrowed */
    ForwardPass(KcpContext context, ConvOptions options, List<ConvArguments> arguments, HistoryPool pool) {
        this.context = context;
        this.engine = context.engine();
        this.shard = context.shard();
        this.options = options;
        this.arguments = arguments;
        this.pool = pool;
        this.operands = pool.operands(arguments);
    }

    /** @throws IllegalArgumentException if an argument has the wrong shape or type */
    static void check(KcpContext context, ConvOptions options, List<ConvArguments> arguments) {
        for (ConvArguments one : arguments) {
            checkShard(context, options, one.x());
            ConvChecks.parameters(one.x(), one.weight(), one.bias());
            ConvChecks.rowsLike(one.x(), "y", one.y());
            context.callerHistory().check(one);
        }
        Apart apart = new Apart();
        for (int i = 0; i < arguments.size(); i++) {
            ConvArguments one = arguments.get(i);
            String of = arguments.size() == 1 ? "" : "[" + i + "]";
            apart.input("x" + of, one.x());
            apart.input("weight" + of, one.weight());
            apart.input("bias" + of, one.bias());
            apart.input("initialHistory" + of, one.initialHistory());
            apart.output("y" + of, one.y());
            apart.output("finalHistory" + of, one.finalHistory());
        }
        apart.check();
    }

    private static void checkShard(KcpContext context, ConvOptions options, Tensor x) {
        ConvChecks.rows("x", x, context.engine().device());
        int tokens = context.localTokens();
        if (x.rows() < tokens || x.rows() > tokens && !options.allowSlack()) {
            throw new IllegalArgumentException("x must hold this rank's tokens: rows=" + x.rows() + " tokens=" + tokens
                    + " rank=" + context.communicator().rank());
        }
    }

    List<Operands> operands() {
        return operands;
    }

    List<HaloTransfers.Source> sources() {
        return arguments.stream()
                .map(one -> new HaloTransfers.Source(one.x(), one.initialHistory()))
                .toList();
    }

    List<Tensor> received() {
        return pool.rows();
    }

    /** y of every row that needs no history from elsewhere. */
    void main() {
        for (int i = 0; i < operands.size(); i++) {
            engine.forward(shard, operands.get(i), options, arguments.get(i).y());
        }
    }

    /** y of the rows that waited for others. These are rows that main leaves alone, so neither waits for the other. */
    void seam(long queue) {
        for (int i = 0; i < operands.size(); i++) {
            engine.seam(shard, operands.get(i), options, arguments.get(i).y(), queue);
        }
    }

    /** The last rows of documents that end here, where they are asked for; gives the saved set, which retains the pool. */
    Saved end() {
        for (int i = 0; i < operands.size(); i++) {
            if (arguments.get(i).finalHistory() != null) {
                context.callerHistory()
                        .writeFinal(arguments.get(i), operands.get(i).history());
            }
        }
        return new Saved(context, operands, pool.retain());
    }
}
