package dev.kcp.launcher;

import dev.kcp.Words;
import dev.kcp.comm.Communicator;
import dev.kcp.train.HeldOutText;
import dev.kcp.train.LossLog;
import dev.kcp.train.Progress;
import dev.kcp.train.Saving;
import dev.kcp.train.TextCorpus;
import dev.kcp.train.TrainConfig;
import dev.kcp.train.TrainListener;
import dev.kcp.train.TrainLoop;
import dev.kcp.train.TrainSummary;
import dev.kcp.train.report.Curves;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * One training run, as every rank of it runs: rank 0 shows the steps, writes what the options ask for, and prints the
 * summary.
 *
 * @param heldOut text that is not learnt from, or null
 * @param lossLog where every step's loss goes, or null
 * @param progress how rank 0 shows the steps
 */
record TrainJob(
        TrainConfig config,
        TextCorpus corpus,
        HeldOutText heldOut,
        boolean verify,
        List<Injection> faults,
        Path lossLog,
        ReportOptions reports,
        Progress.Style progress) {

    /**
     * Runs this rank's part.
     *
     * @param saving where to save and when to stop, or null
     * @return the exit code
     */
    int run(TrainRank rank, Saving saving) {
        Communicator communicator = rank.communicator();
        boolean shows = communicator.rank() == 0;
        Curves curves = reports.isWanted() && shows ? new Curves(config.stepTokens()) : null;
        if (curves != null) {
            reports.tellWhetherDrawn();
        }
        TrainLoop loop;
        TrainSummary summary;
        try (Progress steps = Progress.of(shows ? progress : Progress.Style.NONE, config.steps(), System.out);
                LossLog log = lossLog != null && shows ? new LossLog(lossLog) : null) {
            List<TrainListener> listeners = new ArrayList<>(List.of(steps));
            if (log != null) {
                listeners.add(log);
            }
            if (curves != null) {
                listeners.add(curves);
            }
            if (!faults.isEmpty()) {
                listeners.add(new InjectingListener(faults, communicator));
            }
            loop = new TrainLoop(config, corpus, communicator, rank.engine(), saving, verify, heldOut);
            summary = loop.run(listeners.stream().reduce(TrainListener::both).orElseThrow());
        } catch (RuntimeException failure) {
            communicator.abort(Words.of(failure));
            throw failure;
        }
        if (shows) {
            System.out.println(summary.toJson());
        }
        if (curves != null) {
            reports.write(config, corpus, curves, summary);
        }
        return loop.wasStopped() ? stopped(saving) : ExitCode.DONE;
    }

    /** Only ranks that were told to end say so: to a launcher the others come after the one that was. */
    private static int stopped(Saving saving) {
        if (saving.stopAsked().getAsBoolean()) {
            return ExitCode.TERMINATED;
        }
        Main.note("ended, with the state saved, since another rank was told to end");
        return ExitCode.RANK_FAILED;
    }

    /** Every rank is told of every step, so what comes after one comes before the next. */
    private record InjectingListener(List<Injection> faults, Communicator communicator) implements TrainListener {
        @Override
        public void onBegin(int stepsBefore) {
            Injection.before(stepsBefore + 1, faults, communicator);
        }

        @Override
        public void onStep(int step, double loss, double tokensPerSecond) {
            Injection.before(step + 1, faults, communicator);
        }
    }
}
