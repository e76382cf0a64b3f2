package dev.kcp.train;

import dev.kcp.KcpException;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalCommunicator;
import dev.kcp.core.Fragment;
import dev.kcp.core.KcpContext;
import dev.kcp.core.Layout;
import dev.kcp.core.Partition;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;

/**
 * Compares each step with the same step on one rank: y and dX of every layer's convolution, then loss and gradients. Every
 * rank computes the whole batch a second time, alone, and compares its own tokens; the first difference of all ranks ends
 * the run on all of them.
 *
 * <p>Where the run promises the same bits, bits are compared. Otherwise the products of a rank's rows may be summed in
 * another order than those of the whole batch; a number then counts as different where it is off by more than {@value
 * #TOLERANCE} of its size or of the tensor's root mean square, whichever is more.
 */
final class Verifier implements AutoCloseable {
    private static final double TOLERANCE = 0.05;

    /** What is waited for on a group of one: nothing. */
    private static final Duration DEADLINE = Duration.ofMinutes(1);

    private final TrainConfig config;
    private final ParameterTable table;
    private final Communicator group;
    private final TrainEngine engine;
    private final Communicator alone;
    private final CloseStack owners = new CloseStack();
    private final Model model;
    private final ParameterBuffer gradients;
    private final Tensor loss;
    private final MicroSteps micro;
    private final List<short[]> expected = new ArrayList<>();
    private CloseStack contexts = new CloseStack();
    private int batches;
    private Difference first;

    /** The group and the engine are borrowed. */
    Verifier(TrainConfig config, ParameterTable table, Communicator group, TrainEngine engine) {
        this.config = config;
        this.table = table;
        this.group = group;
        this.engine = engine;
        alone = owners.push(LocalCommunicator.group(1, DEADLINE).getFirst());
        model = owners.push(new Model(engine, table, alone, Recompute.of(config), config.microSteps()));
        gradients = owners.push(new ParameterBuffer(engine, DType.F32, table));
        loss = owners.push(engine.allocate(DType.F64, 1));
        micro = owners.push(new MicroSteps(engine, table, table.shape().layers()));
    }

    /**
     * Runs a batch on this rank alone.
     *
     * @param partition of the sharded run
     * @return compares what the sharded run's convolutions write, call by call
     */
    ConvProbe expect(PackedBatch batch, Partition partition, Weights weights) {
        batches++;
        expected.clear();
        Partition whole = Partition.of(Layout.CONTIGUOUS, batch.cuSeqlens(), 1, config.align());
        model.prepare(batch, whole, TilePlan.of(config, whole));
        KcpContext context = contexts.push(new KcpContext(whole, alone, engine.conv()));
        model.accumulate(context, weights, gradients, loss, micro, (layer, name, rows) -> expected.add(shorts(rows)));
        int[] tokens = tokens(partition);
        int number = batches;
        int[] calls = {0};
        return (layer, name, rows) -> {
            int call = calls[0]++;
            if (first == null) {
                compareRows(number, call, layer, name, tokens, shorts(rows), expected.get(call));
            }
        };
    }

    /** Packed token of each local row. */
    private int[] tokens(Partition partition) {
        return partition.fragments(group.rank()).stream()
                .flatMapToInt(fragment -> packed(partition, fragment))
                .toArray();
    }

    private static IntStream packed(Partition partition, Fragment fragment) {
        int begin = partition.packedBegin(fragment);
        return IntStream.range(begin, begin + fragment.length());
    }

    private void compareRows(
            int batch, int call, int layer, String name, int[] tokens, short[] actual, short[] reference) {
        int channels = table.shape().channels();
        Closeness closeness = config.sameBits() ? Closeness.BITS : Closeness.of(TOLERANCE, reference);
        int token = Integer.MAX_VALUE;
        int at = -1;
        for (int row = 0; row < tokens.length; row++) {
            int channel = closeness.firstFar(actual, row * channels, reference, tokens[row] * channels, channels);
            if (channel >= 0 && tokens[row] < token) {
                token = tokens[row];
                at = row * channels + channel;
            }
        }
        if (at >= 0) {
            int channel = at % channels;
            first = new Difference(
                    batch * 1_000_000L + call,
                    token,
                    Difference.where(batch, config.microSteps()) + "layer=" + layer + " tensor=" + name + " token="
                            + token + " channel=" + channel + " rank=" + group.worldRank() + " value="
                            + Closeness.text(actual[at]) + " single-rank value="
                            + Closeness.text(reference[token * channels + channel]));
        }
    }

    /**
     * Compares loss and gradients, then hears what the other ranks found; collective.
     *
     * @throws KcpException with {@code DISAGREEMENT}, on every rank the same, naming the first difference
     */
    void check(int step, ParameterBuffer actual, Tensor actualLoss) {
        model.finish(micro, gradients);
        if (first == null) {
            compareGradients(floats(actual), floats(gradients));
        }
        if (first == null) {
            compareLoss(aDouble(actualLoss), aDouble(loss));
        }
        end();
        byte[] mine = (first == null ? "" : first.encoded()).getBytes(StandardCharsets.UTF_8);
        Optional<Difference> found = group.host().allGather("differences", mine).stream()
                .filter(bytes -> bytes.length > 0)
                .map(bytes -> Difference.decoded(new String(bytes, StandardCharsets.UTF_8)))
                .min(Comparator.comparingLong(Difference::order).thenComparingInt(Difference::token));
        first = null;
        if (found.isPresent()) {
            throw new KcpException(
                    KcpException.Code.DISAGREEMENT,
                    "the run differs from a run on one rank: step=" + step + " "
                            + found.get().text());
        }
    }

    private void compareGradients(float[] actual, float[] reference) {
        for (Parameter parameter : table.all()) {
            int begin = Math.toIntExact(parameter.offset());
            int length = Math.toIntExact(parameter.elements());
            Closeness closeness =
                    config.sameBits() ? Closeness.BITS : Closeness.of(TOLERANCE, reference, begin, length);
            int at = closeness.firstFar(actual, reference, begin, length);
            if (at >= 0) {
                first = new Difference(
                        Long.MAX_VALUE - 1,
                        0,
                        Difference.gradient(parameter, at) + " rank=" + group.worldRank() + " value="
                                + actual[begin + at] + " single-rank value=" + reference[begin + at]);
                return;
            }
        }
    }

    private void compareLoss(double actual, double reference) {
        boolean isClose = config.sameBits()
                ? Double.doubleToRawLongBits(actual) == Double.doubleToRawLongBits(reference)
                : Math.abs(actual - reference) <= TOLERANCE * Math.abs(reference);
        if (!isClose) {
            first = new Difference(
                    Long.MAX_VALUE,
                    0,
                    "tensor=loss rank=" + group.worldRank() + " value=" + actual + " single-rank value=" + reference);
        }
    }

    private short[] shorts(Tensor rows) {
        short[] host = new short[Math.toIntExact(rows.elements())];
        engine.read(rows, MemorySegment.ofArray(host));
        return host;
    }

    private float[] floats(ParameterBuffer buffer) {
        float[] host = new float[Math.toIntExact(buffer.flat().elements())];
        engine.read(buffer.flat(), MemorySegment.ofArray(host));
        return host;
    }

    private double aDouble(Tensor tensor) {
        double[] host = new double[1];
        engine.read(tensor, MemorySegment.ofArray(host));
        return host[0];
    }

    private void end() {
        micro.end();
        CloseStack ended = contexts;
        contexts = new CloseStack();
        batches = 0;
        ended.close();
    }

    @Override
    public void close() {
        end();
        owners.close();
    }
}
