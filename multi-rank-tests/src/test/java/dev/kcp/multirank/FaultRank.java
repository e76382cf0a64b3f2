package dev.kcp.multirank;

import dev.kcp.KcpException;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.RankInfo;
import dev.kcp.comm.TcpCommunicator;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.cpu.CpuConvEngine;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;

/**
 * One rank of a job in which rank {@link #CULPRIT} does something wrong at one place of a step. Every rank runs the step
 * twice, without and with the fault; where the faulty one ends well, its results must have the bits of the clean one.
 */
final class FaultRank {
    static final int CULPRIT = 2;
    static final Duration DEADLINE = Duration.ofSeconds(2);

    private static final Duration MEET_DEADLINE = Duration.ofSeconds(60);

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
        try {
            Duration deadline = args.length > 2 ? Duration.ofSeconds(Long.parseLong(args[2])) : DEADLINE;
            run(Fault.valueOf(args[0]), Place.valueOf(args[1]), deadline);
        } catch (KcpException e) {
            System.err.println(e.getMessage());
            System.exit(e.code().exitCode());
        }
    }

    private static void run(Fault fault, Place place, Duration deadline) {
        RankInfo me = RankInfo.fromEnvironment(System.getenv()).orElseThrow();
        try (Communicator communicator = TcpCommunicator.join(me, "world", MEET_DEADLINE, deadline);
                ConvEngine engine = new CpuConvEngine(1)) {
            communicator.recorder().keepIn(Path.of(System.getenv("KCP_CALLS_DIR")));
            byte[] clean;
            try (FaultStep step = new FaultStep(communicator, engine, Fault.NONE, place)) {
                clean = step.run();
            }
            communicator.barrier("clean step done");
            try (FaultStep step = new FaultStep(communicator, engine, fault, place)) {
                boolean same = Arrays.equals(clean, step.run());
                communicator.barrier("faulty step done");
                System.out.println(same ? "same bits" : "other bits");
            }
        }
    }
}
