package dev.kcp.train;

import dev.kcp.comm.Communicator;
import dev.kcp.core.ExchangeCounts;
import dev.kcp.core.Layout;
import dev.kcp.tensor.DType;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Short training runs whose numbers are compared. */
final class CudaRuns {
    static final int STEPS = 8;
    private static final TextCorpus CORPUS = TextCorpus.of(text());

    /** What one rank had at the end. */
    record Run(
            List<TrainStep.Result> results,
            float[] weights,
            float[] first,
            float[] second,
            List<ExchangeCounts> exchanges) {}

    private CudaRuns() {}

    static TrainConfig config(int tokens, int channels, Layout layout, int align, boolean checkpoint) {
        return new TrainConfig(
                new ModelShape(2, channels),
                tokens,
                STEPS,
                1,
                0.01,
                0.1,
                1,
                layout,
                align,
                checkpoint,
                align % 64 == 0);
    }

    static Run run(TrainConfig config, Communicator communicator, TrainEngine engine) {
        try (TrainStep train = new TrainStep(config, communicator, engine)) {
            Packer packer = new Packer(CORPUS, config.tokens(), config.seed());
            List<TrainStep.Result> results = new ArrayList<>();
            for (int step = 1; step <= STEPS; step++) {
                results.add(train.run(step, packer.next(), 0.01));
            }
            return new Run(
                    results,
                    floats(engine, train.weights().values()),
                    floats(engine, train.optimizer().first()),
                    floats(engine, train.optimizer().second()),
                    train.exchanges());
        }
    }

    private static float[] floats(TrainEngine engine, ParameterBuffer buffer) {
        float[] values = new float[(int) buffer.flat().elements()];
        engine.read(buffer.flat(), MemorySegment.ofArray(values));
        assert buffer.flat().dtype() == DType.F32;
        return values;
    }

    /** Documents of 1 to about 300 bytes. */
    private static byte[] text() {
        Random random = new Random(7);
        StringBuilder text = new StringBuilder();
        for (int document = 0; document < 200; document++) {
            int length = 1 + random.nextInt(1 << random.nextInt(1, 9));
            for (int i = 0; i < length; i++) {
                text.append((char) ('a' + random.nextInt(26)));
            }
            text.append("\n\n");
        }
        return text.toString().getBytes(StandardCharsets.US_ASCII);
    }
}
