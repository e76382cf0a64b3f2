package dev.kcp.train;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalRanks;
import dev.kcp.core.ExchangeCounts;
import dev.kcp.core.Layout;
import dev.kcp.nccl.NcclCommunicator;
import dev.kcp.nccl.NcclLibrary;
import dev.kcp.tensor.DType;
import dev.kcp.train.cuda.CudaTrainEngine;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.BiFunction;

/** Short training runs whose numbers are compared. */
final class CudaRuns {
    static final int STEPS = 8;
    static final Duration DEADLINE = Duration.ofSeconds(60);
    static final TextCorpus CORPUS = TextCorpus.of(text());

    /** What one rank had at the end. */
    record Run(
            List<TrainStep.Result> results,
            float[] weights,
            float[] first,
            float[] second,
            List<ExchangeCounts> exchanges) {}

    private CudaRuns() {}

    static TrainConfig config(int tokens, int channels, Layout layout, int align, boolean checkpoint) {
        return config(tokens, channels, layout, align, checkpoint, 1);
    }

    static TrainConfig config(int tokens, int channels, Layout layout, int align, boolean checkpoint, int microSteps) {
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
                align % 64 == 0,
                microSteps,
                true);
    }

    /** A body on as many GPUs, connected by NCCL where they are several. */
    static <T> List<T> onGpus(int world, BiFunction<Communicator, CudaTrainEngine, T> body) {
        Path library = world == 1 ? null : NcclLibrary.require(System.getenv());
        return LocalRanks.run(world, DEADLINE, control -> {
            try (CudaTrainEngine engine = BothEngines.openGpu(control.rank());
                    NcclCommunicator group = NcclCommunicator.create(control, engine.stream(), library, DEADLINE)) {
                engine.join(group);
                return body.apply(group, engine);
            }
        });
    }

    /** Each batch prepared while the device makes the step before, as in training. */
    static Run run(TrainConfig config, Communicator communicator, TrainEngine engine) {
        try (TrainStep train = new TrainStep(config, communicator, engine)) {
            StepSequence steps = new StepSequence(config, CORPUS, train, RunPosition.START);
            List<TrainStep.Result> results = new ArrayList<>();
            while (steps.hasNext()) {
                results.add(steps.next());
            }
            return end(results, train, engine);
        }
    }

    /** As {@link #run}, with a wait after each step before anything is done for the next. */
    static Run runWithoutPreparing(TrainConfig config, Communicator communicator, TrainEngine engine) {
        try (TrainStep train = new TrainStep(config, communicator, engine)) {
            Packer packer = new Packer(CORPUS, config.tokens(), config.seed());
            LearningRate rate = new LearningRate(config.learningRate(), config.steps());
            List<TrainStep.Result> results = new ArrayList<>();
            for (int step = 1; step <= STEPS; step++) {
                List<PackedBatch> batches = new ArrayList<>();
                for (int i = 0; i < config.microSteps(); i++) {
                    batches.add(packer.next());
                }
                results.add(train.run(step, batches, rate.at(step)));
            }
            return end(results, train, engine);
        }
    }

    private static Run end(List<TrainStep.Result> results, TrainStep train, TrainEngine engine) {
        return new Run(
                results,
                floats(engine, train.weights().values()),
                floats(engine, train.optimizer().first()),
                floats(engine, train.optimizer().second()),
                train.exchanges());
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
