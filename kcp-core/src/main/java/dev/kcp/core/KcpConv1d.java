package dev.kcp.core;

import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.PendingExchange;
import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.function.LongConsumer;
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
    private final boolean overlap;
    private ExchangeCounts counts = ExchangeCounts.NONE;
    /** Of the latest call, to be told of one that is refused and names no group; null before the first. */
    private Communicator latestGroup;

    /**
     * The convolution of a layer, which hides its exchanges behind the main programs.
     *
     * @param label the layer's name, equal on all ranks; errors name it
     */
    public KcpConv1d(String label, ConvOptions options) {
        this(label, options, true);
    }

    private KcpConv1d(String label, ConvOptions options, boolean overlap) {
        this.label = Objects.requireNonNull(label, "label");
        this.options = Objects.requireNonNull(options, "options");
        this.overlap = overlap;
    }

    /** As the constructor, for comparison: the main programs wait for the exchange instead of running beside it. */
    public static KcpConv1d inSeries(String label, ConvOptions options) {
        return new KcpConv1d(label, options, false);
    }

    /** The layer's name. */
    public String label() {
        return label;
    }

    /** Exchanges made so far. */
    public ExchangeCounts exchanges() {
        return counts;
    }

    /** As the next form, where nothing is recomputed. */
    public Saved forward(KcpContext context, Tensor x, Tensor weight, Tensor bias, Tensor y) {
        return forward(context, x, weight, bias, y, null);
    }

    /**
     * Writes y of this rank's tokens; {@link #forward(KcpContext, List, RecomputeHandle)} of one tensor.
     *
     * @param x BF16 {@code [S, C]}; borrowed until the saved set is closed, as are weight and bias
     * @param weight FP32 or BF16 {@code [C, 4]}
     * @param bias FP32 or BF16 {@code [C]}, or null
     * @param y BF16 {@code [S, C]}
     * @param handle where a recompute finds the history rows, or null
     */
    public Saved forward(KcpContext context, Tensor x, Tensor weight, Tensor bias, Tensor y, RecomputeHandle handle) {
        return forward(context, List.of(ConvArguments.of(x, weight, bias, y)), handle);
    }

    /**
     * Writes y of several tensors with one exchange; the bits are those of as many single calls.
     *
     * @param arguments one or more tensors, with the same numbers of channels on all ranks
     * @param handle where a recompute finds the history rows, or null
     * @return what backward needs, closed by the caller
     * @throws IllegalArgumentException before any exchange, if an argument has the wrong shape or type, or an output shares
     *     memory with another argument
     * @throws IllegalStateException if the context was closed, or the handle was used or cleared in a way that its phase forbids
     */
    public Saved forward(KcpContext context, List<ConvArguments> arguments, RecomputeHandle handle) {
        return failingTheGroup(context, () -> {
            checkGiven("context", context);
            context.checkOpen();
            List<ConvArguments> all = givenAll("arguments", arguments);
            checkNotEmpty(all.size());
            ForwardPass.check(context, options, all);
            HistoryPool stored = HistoryPool.stored(handle, this, context, all);
            if (stored != null) {
                ForwardPass pass = new ForwardPass(context, options, all, stored);
                pass.main();
                pass.seam(0);
                return pass.end();
            }
            HistoryPool pool = new HistoryPool(this, context, all);
            try {
                ForwardPass pass = new ForwardPass(context, options, all, pool);
                // The group is told before the pool is freed: until then a peer's rows may still be written to it.
                Saved saved = failingTheGroup(context, () -> exchangeForward(context, pass, handle != null));
                if (handle != null) {
                    handle.entries().put(RecomputeHandle.CONV, pool.retain());
                }
                return saved;
            } finally {
                pool.release();
            }
        });
    }

    private Saved exchangeForward(KcpContext context, ForwardPass pass, boolean withHandle) {
        Phase phase = Phase.current();
        Call call = call(context, Call.Kind.HALO_FORWARD, pass.operands(), phase + (withHandle ? " with handle" : ""));
        PendingExchange exchange =
                start(context, context.forwardTransfers(), call, pass.sources(), pass.received(), pass::seam);
        counts = counts.plusForward(phase);
        pass.main();
        exchange.await();
        return pass.end();
    }

    private PendingExchange start(
            KcpContext context,
            HaloTransfers transfers,
            Call call,
            List<HaloTransfers.Source> sources,
            List<Tensor> pools,
            LongConsumer behind) {
        context.awaitAgreement();
        PendingExchange exchange = transfers.start(context.communicator(), call, sources, pools, behind);
        if (!overlap) {
            exchange.await();
        }
        return exchange;
    }

    /**
     * Writes dx of this rank's tokens; {@link #backward(Saved, List)} of one tensor.
     *
     * @param dy BF16 {@code [S, C]}, or null for zeros
     * @param dx BF16 {@code [S, C]}, or null where nobody asks for it
     * @return the sums, closed by the caller after {@link #reduceGradients}
     */
    public PartialGradients backward(Saved saved, Tensor dy, Tensor dx) {
        return backward(saved, List.of(new ConvGradients(dy, dx, null))).getFirst();
    }

    /**
     * Writes dx of this rank's tokens and makes this rank's sums for dweight and dbias, with one exchange for all tensors,
     * which is made whatever is asked for.
     *
     * @param saved from this object's forward
     * @param gradients one for each tensor of the forward, in its order
     * @return the sums of each tensor, closed by the caller after {@link #reduceGradients}
     * @throws IllegalArgumentException before any exchange, if a gradient has the wrong shape or type, or an output shares
     *     memory with another argument
     * @throws IllegalStateException if another call made the saved set, or it or its context was closed, or its batch was
     *     replaced
     */
    public List<PartialGradients> backward(Saved saved, List<ConvGradients> gradients) {
        KcpContext context = saved == null ? null : saved.context();
        return failingTheGroup(context, () -> {
            checkGiven("saved", saved);
            context.checkOpen();
            List<Operands> operands = saved.operandsOf(this);
            List<ConvGradients> all = givenAll("gradients", gradients);
            if (all.size() != operands.size()) {
                throw new IllegalArgumentException("one gradient for each tensor of the forward: gradients="
                        + all.size() + " tensors=" + operands.size() + " call=" + label);
            }
            try (BackwardPass pass = new BackwardPass(this, context, options, operands, all)) {
                // As in forward: the group is told of a failure before the pass frees its memory.
                return failingTheGroup(context, () -> exchangeBackward(context, operands, pass));
            }
        });
    }

    private List<PartialGradients> exchangeBackward(KcpContext context, List<Operands> operands, BackwardPass pass) {
        pass.head();
        Call call = call(context, Call.Kind.HALO_BACKWARD, operands, "BACKWARD");
        PendingExchange exchange =
                start(context, context.backwardTransfers(), call, pass.sources(), pass.received(), null);
        counts = counts.plusBackward();
        pass.main();
        exchange.await();
        return pass.owed();
    }

    /**
     * Combines the sums of all ranks, one backward after another, and rounds once. Every rank gets the same bits; for
     * tree-exact partitions those of the single-rank op.
     *
     * @param microSteps this rank's sums of one or more backwards of this call, in micro-step order
     * @param dtype type of the results, FP32 or BF16
     * @return dweight {@code [C, 4]} and, with a bias, dbias {@code [C]}; dx is null; closed by the caller
     * @throws IllegalArgumentException before any exchange, if there are no sums, or another object's or another tensor's,
     *     or they are of several communicators or engines, or the type is another one
     * @throws IllegalStateException before any exchange, if sums or their context were closed
     */
    public Gradients reduceGradients(List<PartialGradients> microSteps, DType dtype) {
        return reduceGradients(microSteps, dtype, dtype);
    }

    /** As the other form, with a type for each gradient. */
    public Gradients reduceGradients(List<PartialGradients> microSteps, DType dweightType, DType dbiasType) {
        try {
            checkGradientType("dweightType", dweightType);
            checkGradientType("dbiasType", dbiasType);
            List<PartialGradients> all = givenAll("microSteps", microSteps);
            if (all.isEmpty()) {
                throw new IllegalArgumentException("no sums to reduce: microSteps=0 call=" + label);
            }
            PartialGradients first = all.getFirst();
            for (PartialGradients step : all) {
                step.checkUsableBy(this);
                step.checkSameAs(first);
            }
            String name = first.tensor() == 0 ? label : label + "[" + first.tensor() + "]";
            return GroupSums.reduce(name, all, dweightType, dbiasType);
        } catch (RuntimeException | Error e) {
            groupsOf(microSteps).forEach(group -> group.abort(label + ": " + e.getMessage()));
            throw e;
        }
    }

    private void checkGradientType(String name, DType dtype) {
        if (dtype != DType.F32 && dtype != DType.BF16) {
            throw new IllegalArgumentException("gradients are FP32 or BF16: call=" + label + " " + name + "=" + dtype);
        }
    }

    /** Groups whose ranks may wait for a reduction of these sums, which may be wrong ones. */
    private Set<Communicator> groupsOf(List<PartialGradients> microSteps) {
        Set<Communicator> groups = new LinkedHashSet<>();
        if (latestGroup != null) {
            groups.add(latestGroup);
        }
        for (PartialGradients step : microSteps == null ? List.<PartialGradients>of() : microSteps) {
            if (step != null) {
                groups.add(step.context().communicator());
            }
        }
        return groups;
    }

    private Call call(KcpContext context, Call.Kind kind, List<Operands> operands, String what) {
        List<Long> channels = operands.stream().map(Operands::channels).toList();
        return new Call(
                kind,
                label + " " + what + (channels.size() == 1 ? "" : " tensors=" + channels),
                channels.stream().mapToLong(Long::longValue).sum(),
                kind == Call.Kind.HALO_FORWARD ? DType.BF16 : DType.F32,
                context.digest());
    }

    private void checkNotEmpty(int tensors) {
        if (tensors == 0) {
            throw new IllegalArgumentException("a call needs a tensor: tensors=0 call=" + label);
        }
    }

    private void checkGiven(String name, Object argument) {
        if (argument == null) {
            throw new IllegalArgumentException("an argument is missing: call=" + label + " " + name + "=null");
        }
    }

    private <T> List<T> givenAll(String name, List<T> list) {
        checkGiven(name, list);
        for (int i = 0; i < list.size(); i++) {
            checkGiven(name + "[" + i + "]", list.get(i));
        }
        return List.copyOf(list);
    }

    private <T> T failingTheGroup(KcpContext context, Supplier<T> body) {
        latestGroup = context == null ? latestGroup : context.communicator();
        try {
            return body.get();
        } catch (RuntimeException | Error e) {
            if (latestGroup != null) {
                latestGroup.abort(label + ": " + e.getMessage());
            }
            throw e;
        }
    }

    /** Label and policy, which tell two calls of one layer apart. */
    @Override
    public String toString() {
        return label + " policy=" + options.policy();
    }
}
