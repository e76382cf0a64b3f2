package dev.kcp.core;

import dev.kcp.comm.Call;
import dev.kcp.comm.PendingExchange;
import dev.kcp.conv.ConvChecks;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.ConvEngine.Part;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.Shard;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.List;
import java.util.Objects;
import java.util.function.Supplier;

/**
 * The context-parallel convolution of one layer. Every rank of the context's group makes the same calls in the same order;
 * y and dx have the bits of the single-rank op for any partition. A throw on one rank ends the group with its reason.
 *
 * <p>S = this rank's tokens (and slack rows after them, where allowed), C = channels.
 */
public final class KcpConv1d {
    private final String label;
    private final ConvOptions options;
    private ExchangeCounts counts = ExchangeCounts.NONE;

    /**
     * @param label the layer's name, equal on all ranks; errors name it
     */
    public KcpConv1d(String label, ConvOptions options) {
        this.label = Objects.requireNonNull(label, "label");
        this.options = Objects.requireNonNull(options, "options");
    }

    public String label() {
        return label;
    }

    /** Exchanges made so far. */
    public ExchangeCounts exchanges() {
        return counts;
    }

    /**
     * Writes y of this rank's tokens.
     *
     * @param x BF16 {@code [S, C]}; borrowed until the saved set is closed, as are weight and bias
     * @param weight FP32 or BF16 {@code [C, 4]}
     * @param bias FP32 or BF16 {@code [C]}, or null
     * @param y BF16 {@code [S, C]}
     * @param handle where a recompute finds the history rows, or null
     * @return what backward needs, closed by the caller
     * @throws IllegalArgumentException if an argument has the wrong shape or type
     * @throws IllegalStateException if the handle was used or cleared in a way that its phase forbids
     */
    public Saved forward(KcpContext context, Tensor x, Tensor weight, Tensor bias, Tensor y, RecomputeHandle handle) {
        return failingTheGroup(context, () -> {
            context.checkOpen();
            checkShard(context, x);
            ConvChecks.parameters(x, weight, bias);
            ConvChecks.rowsLike(x, "y", y);
            HistoryPool bound = bound(context, x.columns(), handle);
            if (bound != null) {
                Operands in = new Operands(x, weight, bias, bound.rows());
                context.engine().forward(context.shard(), in, options, Part.MAIN, y);
                context.engine().forward(context.shard(), in, options, Part.SEAM, y);
                return new Saved(context, x, weight, bias, bound.retain());
            }
            HistoryPool pool = new HistoryPool(this, context, x.columns());
            try {
                exchangeForward(context, new Operands(x, weight, bias, pool.rows()), y, handle != null);
            } catch (RuntimeException e) {
                pool.release();
                throw e;
            }
            if (handle != null) {
                handle.entries().put(RecomputeHandle.CONV, pool.retain());
            }
            return new Saved(context, x, weight, bias, pool);
        });
    }

    private void exchangeForward(KcpContext context, Operands in, Tensor y, boolean withHandle) {
        Phase phase = Phase.current();
        PendingExchange exchange = context.forward()
                .start(
                        context.communicator(),
                        call(context, Call.Kind.HALO_FORWARD, in, phase + (withHandle ? " with handle" : "")),
                        in.x(),
                        in.history());
        counts = counts.plusForward(phase);
        context.engine().forward(context.shard(), in, options, Part.MAIN, y);
        exchange.await();
        context.engine().forward(context.shard(), in, options, Part.SEAM, y);
    }

    /** The stored pool where this call must bind it, null where it must exchange. */
    private HistoryPool bound(KcpContext context, long channels, RecomputeHandle handle) {
        if (handle == null) {
            return null;
        }
        Phase phase = Phase.current();
        Object entry = handle.entries().get(RecomputeHandle.CONV);
        if (entry == null || entry == RecomputeHandle.Cleared.ENTRY && phase == Phase.FORWARD) {
            return null;
        }
        String where = "call=" + label + " phase=" + phase + " rank="
                + context.communicator().rank();
        if (entry == RecomputeHandle.Cleared.ENTRY) {
            throw new IllegalStateException("the handle was cleared before its region was recomputed: " + where);
        }
        if (!(entry instanceof HistoryPool pool)) {
            throw new IllegalStateException(
                    "the handle's entry \"" + RecomputeHandle.CONV + "\" was made by something else: " + where
                            + " entry=" + entry.getClass().getName());
        }
        if (phase == Phase.FORWARD) {
            throw new IllegalStateException(
                    "the handle is filled already; make one per convolution call and micro-step: " + where);
        }
        String mismatch = pool.mismatch(this, context, channels);
        if (mismatch != null) {
            throw new IllegalStateException("the handle's entry belongs to another call: " + where + " " + mismatch);
        }
        return pool;
    }

    /**
     * Writes dx of this rank's tokens and makes this rank's sums for dweight and dbias. The exchange is made whatever is
     * asked for.
     *
     * @param dy BF16 {@code [S, C]}, or null for zeros
     * @param dx BF16 {@code [S, C]}, or null where nobody asks for it
     * @return the sums, closed by the caller after {@link #reduceGradients}
     */
    public PartialGradients backward(Saved saved, Tensor dy, Tensor dx) {
        KcpContext context = saved.context();
        return failingTheGroup(context, () -> {
            context.checkOpen();
            Operands in = saved.operands();
            if (dy != null) {
                ConvChecks.rowsLike(in.x(), "dy", dy);
            }
            if (dx != null) {
                ConvChecks.rowsLike(in.x(), "dx", dx);
            }
            Shard shard = context.shard();
            ConvEngine engine = context.engine();
            Tensor sums = engine.allocate(options.policy().sumType(), shard.nodeCount(), in.sumPlanes(), in.channels());
            try (Tensor head = engine.allocate(DType.F32, shard.headRows(), in.channels());
                    Tensor tail = engine.allocate(DType.F32, shard.tailRows(), in.channels());
                    Tensor received =
                            engine.allocate(DType.F32, context.backward().poolRows(), in.channels())) {
                if (dy != null) {
                    engine.head(shard, in, options, dy, head);
                }
                PendingExchange exchange = context.backward()
                        .start(
                                context.communicator(),
                                call(context, Call.Kind.HALO_BACKWARD, in, "BACKWARD"),
                                head,
                                received);
                counts = counts.plusBackward();
                engine.main(shard, in, options, dy, dx, tail, sums);
                exchange.await();
                if (dx != null) {
                    engine.owed(shard, in, tail, received, dx);
                }
                return new PartialGradients(context, in.bias() != null, sums);
            } catch (RuntimeException e) {
                sums.close();
                throw e;
            }
        });
    }

    /**
     * Combines the sums of all ranks, one backward after another, and rounds once. Every rank gets the same bits; for
     * tree-exact partitions those of the single-rank op.
     *
     * @param microSteps this rank's sums of one or more backwards of this call, in micro-step order
     * @param dtype type of the results, FP32 or BF16
     * @return dweight {@code [C, 4]} and, with a bias, dbias {@code [C]}; dx is null; closed by the caller
     */
    public Gradients reduceGradients(List<PartialGradients> microSteps, DType dtype) {
        return reduceGradients(microSteps, dtype, dtype);
    }

    /** As the other form, with a type for each gradient. */
    public Gradients reduceGradients(List<PartialGradients> microSteps, DType dweightType, DType dbiasType) {
        if (microSteps.isEmpty()) {
            throw new IllegalArgumentException("no sums to reduce: microSteps=0 call=" + label);
        }
        for (DType dtype : List.of(dweightType, dbiasType)) {
            if (dtype != DType.F32 && dtype != DType.BF16) {
                throw new IllegalArgumentException("gradients are FP32 or BF16: dtype=" + dtype);
            }
        }
        KcpContext context = microSteps.getFirst().context();
        return failingTheGroup(context, () -> GroupSums.reduce(label, microSteps, dweightType, dbiasType));
    }

    private Call call(KcpContext context, Call.Kind kind, Operands in, String what) {
        return new Call(
                kind,
                label + " " + what,
                in.channels(),
                kind == Call.Kind.HALO_FORWARD ? DType.BF16 : DType.F32,
                context.digest());
    }

    private void checkShard(KcpContext context, Tensor x) {
        ConvChecks.rows("x", x, context.engine().device());
        int tokens = context.localTokens();
        if (x.rows() < tokens || x.rows() > tokens && !options.allowSlack()) {
            throw new IllegalArgumentException("x must hold this rank's tokens: rows=" + x.rows() + " tokens=" + tokens
                    + " rank=" + context.communicator().rank());
        }
    }

    private <T> T failingTheGroup(KcpContext context, Supplier<T> body) {
        try {
            return body.get();
        } catch (RuntimeException e) {
            context.communicator().abort(label + ": " + e.getMessage());
            throw e;
        }
    }
}
