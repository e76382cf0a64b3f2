package dev.kcp.comm;

import dev.kcp.KcpException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;

/** A rank that is a process of its own: passes rows round a ring, for a number of steps or until something fails. */
final class ProcessRank {
    private static final long ROW_BYTES = 3 * 256 * 2;

    private ProcessRank() {}

    public static void main(String[] args) {
        RankInfo me = RankInfo.fromEnvironment(System.getenv()).orElseThrow();
        int steps = Integer.parseInt(args[0]);
        Duration deadline = Duration.ofMillis(Integer.parseInt(args[1]));
        try (Communicator c = TcpCommunicator.join(me, deadline);
                Arena arena = Arena.ofShared()) {
            System.out.println("joined");
            MemorySegment mine = Ranks.pattern(arena, ROW_BYTES, c.rank());
            MemorySegment theirs = arena.allocate(ROW_BYTES);
            int next = (c.rank() + 1) % c.size();
            int previous = (c.rank() + c.size() - 1) % c.size();
            for (int step = 0; step < steps; step++) {
                c.exchange(
                                Call.of(Call.Kind.EXCHANGE, "step " + step),
                                List.of(new Segment(next, mine.address(), ROW_BYTES)),
                                List.of(new Segment(previous, theirs.address(), ROW_BYTES)))
                        .await();
                Ranks.assertPattern(theirs, ROW_BYTES, previous);
            }
            System.out.println("done");
        } catch (KcpException e) {
            System.out.println(e.getMessage());
            System.exit(e.code().exitCode());
        }
    }
}
