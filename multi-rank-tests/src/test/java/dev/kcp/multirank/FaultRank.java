package dev.kcp.multirank;

import dev.kcp.KcpException;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.RankInfo;
import dev.kcp.comm.TcpCommunicator;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.Eventually;
import dev.kcp.conv.cpu.CpuConvEngine;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;

/**
 * One rank of a job in which rank {@link #CULPRIT} does something wrong at one place of a step. Every rank runs the step
 * twice, without and with the fault; where the faulty one ends well, its results must have the bits of the clean one.
 */
final class FaultRank {
    static final int RANKS = 4;
    static final int CULPRIT = 2;

    private static final Duration STOPPED_DEADLINE = Duration.ofSeconds(4);

    /** What the culprit does. */
    enum Fault {
        NONE,
        THROW,
        EXIT_0,
        EXIT_3,
        SIGKILL,
        SIGSTOP,
        WRONG_CHANNELS,
        WRONG_DTYPE,
        SWAPPED_ORDER,
        HANDLE_ON_ONE_RANK,
        SKIPPED_CALL
    }

    /** Where in the step. */
    enum Place {
        FORWARD,
        RECOMPUTE,
        BACKWARD
    }

    private FaultRank() {}

    public static void main(String[] args) {
        Fault fault = Fault.valueOf(args[0]);
        RankInfo me = RankInfo.fromEnvironment(System.getenv()).orElseThrow();
        CountDownLatch said = new CountDownLatch(1);
        if (me.rank() != CULPRIT) {
            // A launcher that has waited long enough on a busy machine ends this rank, which has its say all the same.
            Runtime.getRuntime().addShutdownHook(new Thread(() -> awaitUnharmed(said)));
        }
        int code = 0;
        try {
            Duration deadline = args.length > 2 ? Duration.ofSeconds(Long.parseLong(args[2])) : deadlineOf(fault);
            Path calls = Path.of(System.getenv("KCP_CALLS_DIR"));
            boolean same = run(me, fault, Place.valueOf(args[1]), deadline, calls, () -> System.out.println("fault"));
            System.out.println(same ? "same bits" : "other bits");
        } catch (KcpException e) {
            System.err.println(e.getMessage());
            code = e.code().exitCode();
        } finally {
            said.countDown();
        }
        if (code != 0) {
            System.exit(code);
        }
    }

    private static void awaitUnharmed(CountDownLatch said) {
        try {
            said.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Only a rank that is stopped is noticed by the deadline. */
    static Duration deadlineOf(Fault fault) {
        return fault == Fault.SIGSTOP ? STOPPED_DEADLINE : Eventually.LIMIT;
    }

    /**
     * One rank's steps.
     *
     * @param deadline of the faulty step
     * @param calls where the calls of the faulty step are kept; perhaps null
     * @param atFault run by the culprit just before
     * @return whether the faulty step gave the bits of the clean one
     */
    static boolean run(RankInfo me, Fault fault, Place place, Duration deadline, Path calls, Runnable atFault) {
        try (ConvEngine engine = new CpuConvEngine(1)) {
            byte[] clean;
            // A group of its own, so that the first use of everything may take long.
            try (Communicator communicator = TcpCommunicator.join(me, "clean", Eventually.LIMIT, Eventually.LIMIT);
                    FaultStep step = new FaultStep(communicator, engine, Fault.NONE, place, atFault)) {
                clean = step.run();
            }
            try (Communicator communicator = TcpCommunicator.join(me, "faulty", Eventually.LIMIT, deadline)) {
                if (calls != null) {
                    communicator.recorder().keepIn(calls);
                }
                try (FaultStep step = new FaultStep(communicator, engine, fault, place, atFault)) {
                    boolean same = Arrays.equals(clean, step.run());
                    communicator.barrier("faulty step done");
                    return same;
                }
            }
        }
    }
}
