package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalRanks;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.core.KcpContext;
import dev.kcp.core.Layout;
import dev.kcp.core.Partition;
import dev.kcp.tensor.HostMemory;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Random;
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
            double loss = lossAndGradients(table, batch(400), 1, 1, true, false).loss();
            assertThat(loss).as("channels=%s", channels).isBetween(5.3, 5.8);
        }
    }

    /** Loss of the batch, and gradients summed over ranks, for parameters that all matter. */
    private static LossAndGradients lossAndGradients(PackedBatch batch, int world, int align, boolean checkpointed) {
        return lossAndGradients(TABLE, batch, world, align, checkpointed, true);
    }

    private static LossAndGradients lossAndGradients(
            ParameterTable table, PackedBatch batch, int world, int align, boolean checkpointed, boolean disturbed) {
        return LocalRanks.run(world, DEADLINE, communicator -> {
                    Partition partition = Partition.of(Layout.ZIGZAG, batch.cuSeqlens(), world, align);
                    Shard shard = new Shard();
                    shard.take(batch, partition, communicator.rank());
                    try (ConvEngine engine = new CpuConvEngine(1);
                            KcpContext context = new KcpContext(partition, communicator, engine);
                            ParameterBuffer values = new ParameterBuffer(table);
                            ParameterBuffer gradients = new ParameterBuffer(table);
                            Model model = new Model(table, new Gemm(1), checkpointed)) {
                        fill(values, disturbed);
                        double own = model.lossAndGradients(context, shard, values, gradients);
                        return sum(communicator, own, gradients, batch.tokens());
                    }
                })
                .getFirst();
    }

    private static LossAndGradients sum(
            Communicator communicator, double own, ParameterBuffer gradients, int batchTokens) {
        communicator.allReduceFloats(
                "gradients", gradients.address(), gradients.table().summedElements());
        double sum = communicator.allGather("loss", Double.toString(own).getBytes(StandardCharsets.US_ASCII)).stream()
                .mapToDouble(bytes -> Double.parseDouble(new String(bytes, StandardCharsets.US_ASCII)))
                .sum();
        return new LossAndGradients(sum / batchTokens, toDoubles(gradients));
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
