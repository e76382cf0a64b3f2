package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.kcp.comm.LocalRanks;
import dev.kcp.core.KcpContext;
import dev.kcp.core.Layout;
import dev.kcp.core.Partition;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.cpu.CpuTrainEngine;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Random;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ModelTest {
    private static final Duration DEADLINE = Duration.ofSeconds(60);
    private static final ParameterTable TABLE = new ParameterTable(new ModelShape(2, 8));
    private static final String TEXT = "abcab\n\nthe cat\n\na\n\nsat on the mat and\n\nxy";

    private record LossAndGradients(double loss, double[] gradients) {}

    /** Rounding to BF16 moves a number by 0.2 percent on average, so a gradient can only be about as close. */
    @ParameterizedTest(name = "world {0} align {1} checkpointed {2}")
    @CsvSource({"1,1,true", "1,1,false", "2,1,true", "3,1,true", "3,1,false", "4,16,true"})
    void gradientOfEveryParameterMatchesFiniteDifferences(int world, int align, boolean checkpointed) {
        PackedBatch batch = batch(44);
        LossAndGradients actual = lossAndGradients(batch, world, align, checkpointed);
        ReferenceModel reference = new ReferenceModel(TABLE, batch);
        double[] values = values();
        assertThat(actual.loss()).isCloseTo(reference.loss(values), within(2e-3));
        double[] expected = FiniteDifferences.gradient(values, reference::loss);
        for (Parameter parameter : TABLE.all()) {
            FiniteDifferences.assertClose(
                    parameter.name(), of(actual.gradients(), parameter), of(expected, parameter), 2e-2);
        }
    }

    @Test
    void checkpointingChangesNoBit() {
        PackedBatch batch = batch(44);
        for (int world = 1; world <= 2; world++) {
            LossAndGradients kept = lossAndGradients(batch, world, 1, false);
            LossAndGradients recomputed = lossAndGradients(batch, world, 1, true);
            assertThat(recomputed.loss()).isEqualTo(kept.loss());
            assertThat(recomputed.gradients()).isEqualTo(kept.gradients());
        }
    }

    @Test
    void untrainedModelKnowsNothing() {
        for (int channels : new int[] {8, 64, 256}) {
            ParameterTable table = new ParameterTable(new ModelShape(4, channels));
            double loss = lossAndGradients(table, batch(400), 1, 1, true, false, TilePlan::whole)
                    .loss();
            assertThat(loss).as("channels=%s", channels).isBetween(5.3, 5.8);
        }
    }

    @ParameterizedTest
    @CsvSource({"1,64", "3,64", "2,128"})
    void tilesLeaveOutNoTokenAndTakeNoneTwice(int world, int align) {
        PackedBatch batch = batch(1000);
        LossAndGradients whole = lossAndGradients(batch, 1, 1, true);
        LossAndGradients tiled =
                lossAndGradients(TABLE, batch, world, align, true, true, partition -> TilePlan.exact(partition, align));
        assertThat(tiled.loss()).isCloseTo(whole.loss(), within(1e-6));
        for (Parameter parameter : TABLE.all()) {
            FiniteDifferences.assertClose(
                    parameter.name(), of(tiled.gradients(), parameter), of(whole.gradients(), parameter), 1e-4);
        }
    }

    /** Loss of the batch, and gradients summed over ranks, for parameters that all matter. */
    private static LossAndGradients lossAndGradients(PackedBatch batch, int world, int align, boolean checkpointed) {
        return lossAndGradients(TABLE, batch, world, align, checkpointed, true, TilePlan::whole);
    }

    private static LossAndGradients lossAndGradients(
            ParameterTable table,
            PackedBatch batch,
            int world,
            int align,
            boolean checkpointed,
            boolean disturbed,
            Function<Partition, TilePlan> plan) {
        return LocalRanks.run(world, DEADLINE, communicator -> {
                    Partition partition = Partition.of(Layout.ZIGZAG, batch.cuSeqlens(), world, align);
                    try (TrainEngine engine = new CpuTrainEngine(1);
                            KcpContext context = new KcpContext(partition, communicator, engine.conv());
                            Weights weights = new Weights(engine, table);
                            ParameterBuffer gradients = new ParameterBuffer(table);
                            Tensor loss = Tensor.zeros(DType.F64, 1);
                            Model model = new Model(engine, table, communicator, checkpointed)) {
                        fill(weights.values(), disturbed);
                        model.prepare(batch, partition, plan.apply(partition));
                        model.lossAndGradients(context, weights, gradients, loss);
                        double sum = loss.segment().get(ValueLayout.JAVA_DOUBLE, 0);
                        return new LossAndGradients(sum / batch.tokens(), toDoubles(gradients));
                    }
                })
                .getFirst();
    }

    private static double[] values() {
        try (ParameterBuffer values = new ParameterBuffer(TABLE)) {
            fill(values, true);
            return toDoubles(values);
        }
    }

    /** First values; disturbed, so that no bias is 0, no gain 1 and logits differ. */
    private static void fill(ParameterBuffer values, boolean disturbed) {
        Initializer.fill(values, 1);
        Random random = new Random(2);
        for (Parameter parameter : values.table().all()) {
            for (long i = 0; disturbed && i < parameter.elements(); i++) {
                long address = values.address(parameter) + 4 * i;
                float value = HostMemory.ALL.get(ValueLayout.JAVA_FLOAT, address);
                HostMemory.ALL.set(ValueLayout.JAVA_FLOAT, address, value + (float) (0.3 * random.nextGaussian()));
            }
        }
    }

    private static PackedBatch batch(int tokens) {
        return new Packer(TextCorpus.of(TEXT.getBytes(StandardCharsets.US_ASCII)), tokens, 5).next();
    }

    private static double[] toDoubles(ParameterBuffer buffer) {
        double[] all = new double[(int) buffer.table().bufferElements()];
        for (int i = 0; i < all.length; i++) {
            all[i] = HostMemory.ALL.get(ValueLayout.JAVA_FLOAT, buffer.address() + 4L * i);
        }
        return all;
    }

    private static double[] of(double[] all, Parameter parameter) {
        int begin = (int) parameter.offset();
        return Arrays.copyOfRange(all, begin, begin + (int) parameter.elements());
    }
}
