package dev.kcp.bench;

import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.train.StepTimer;
import dev.kcp.train.TextCorpus;
import dev.kcp.train.TrainConfig;
import dev.kcp.train.TrainEngine;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/**
 * Times whole training steps on every rank, and the same steps with exchanges hollowed out, in turns in one run: as they
 * are, without halo rows, and without any rows. A collective run; rank 0 has the rows. A diagnostic of what exchanges cost:
 * what hollow steps learn means nothing.
 *
 * <p>A row's floor is the step without halo rows, so the whole step's ratio says how much of the halo is not hidden. A time
 * is the host's from step to step, on the slowest rank.
 */
public final class TrainBench {
    /** Steps that are called before they are recorded, their recording, and replays. */
    private static final int WARM_STEPS = 6;

    /** Before the timed ones of each round. */
    private static final int MORE_WARM_STEPS = 2;

    private static final int ROUNDS = 3;

    private final Communicator communicator;
    private final TrainEngine engine;
    private final int iterations;

    /** One way to exchange, and its times of each round. */
    private record Way(String name, StepTimer steps, HollowExchanges hollow, List<RankTimes> rounds) {
        void warmUp() {
            for (int step = 0; step < WARM_STEPS; step++) {
                steps.step();
            }
            if (hollow != null) {
                hollow.clearRecorded();
            }
            steps.forget();
        }

        double median() {
            return BenchRow.median(
                    rounds.stream().mapToDouble(RankTimes::median).toArray());
        }

        double fastest() {
            return rounds.stream().mapToDouble(RankTimes::fastest).min().orElseThrow();
        }

        /** Where numbers left the finite ones the optimizer's part of the step is missing. */
        String label() {
            return steps.isFinite() ? name : name + "-not-finite";
        }
    }

    /**
     * @param engine joined to the communicator, where that is between GPUs
     * @param iterations timed steps of each of the rounds
     */
    public TrainBench(Communicator communicator, TrainEngine engine, int iterations) {
        this.communicator = communicator;
        this.engine = engine;
        this.iterations = iterations;
    }

    /** Steps that a run makes in each way: what the configuration of {@link #run} must allow. */
    public static int steps(int iterations) {
        return ROUNDS * (WARM_STEPS + MORE_WARM_STEPS + iterations);
    }

    /**
     * Measures one configuration.
     *
     * @param documents of a batch, about; their lengths are random
     */
    public List<BenchRow> run(TrainConfig config, int documents) {
        TextCorpus corpus = corpus(config.tokens(), documents);
        List<BenchRow> rows = new ArrayList<>();
        try (HollowExchanges noHalo = new HollowExchanges(communicator, engine.conv(), HollowExchanges.HALO);
                HollowExchanges none = new HollowExchanges(communicator, engine.conv(), HollowExchanges.ALL);
                StepTimer whole = new StepTimer(config, corpus, communicator, engine);
                StepTimer withoutHalo = new StepTimer(config, corpus, noHalo, engine);
                StepTimer withoutAny = new StepTimer(config, corpus, none, engine)) {
            List<Way> ways = List.of(
                    new Way("whole", whole, null, new ArrayList<>()),
                    new Way("halo-hollow", withoutHalo, noHalo, new ArrayList<>()),
                    new Way("exchanges-hollow", withoutAny, none, new ArrayList<>()));
            long sent = 0;
            for (int round = 0; round < ROUNDS; round++) {
                for (Way way : ways) {
                    long before = haloBytes();
                    way.warmUp();
                    way.rounds()
                            .add(RankTimes.measure(
                                    communicator, RankClock.ofHost(), way.steps()::step, MORE_WARM_STEPS, iterations));
                    sent += haloBytes() - before;
                }
            }
            // Only whole steps send any.
            long stepBytes = sent / steps(iterations);
            for (Way way : ways) {
                rows.add(row(config, documents, way, ways.get(1).median(), way == ways.getFirst() ? stepBytes : 0));
            }
        }
        return List.copyOf(rows);
    }

    private BenchRow row(TrainConfig config, int documents, Way way, double floor, long bytes) {
        String program = StepBench.route(communicator) + "x" + communicator.size() + "-"
                + config.layout().label() + "-layers" + config.shape().layers() + "-align" + config.align() + "-"
                + way.label();
        return new BenchRow(
                "train",
                config.tokens() / communicator.size(),
                config.shape().channels(),
                documents / communicator.size(),
                program,
                0,
                ROUNDS * iterations,
                way.median(),
                way.fastest(),
                bytes,
                floor);
    }

    private long haloBytes() {
        long bytes = 0;
        for (Call.Kind kind : HollowExchanges.HALO) {
            bytes += communicator.stats().bytesSent(kind);
        }
        return bytes;
    }

    /** Text of four batches: letters at random, a token more than that for each document's end. */
    private static TextCorpus corpus(int tokens, int documents) {
        Random random = new Random(1);
        int mean = Math.max(tokens / documents - 1, 1);
        List<byte[]> texts = new ArrayList<>();
        for (int document = 0; document < 4 * documents; document++) {
            byte[] text = new byte[mean / 2 + random.nextInt(mean) + 1];
            for (int i = 0; i < text.length; i++) {
                text[i] = (byte) ('a' + random.nextInt(26));
            }
            texts.add(text);
        }
        return TextCorpus.of(texts.toArray(byte[][]::new));
    }
}
