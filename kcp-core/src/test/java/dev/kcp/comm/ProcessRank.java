package dev.kcp.comm;

import dev.kcp.KcpException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;

/** A rank that is a process of its own: passes rows round a ring, for a number of steps or until something fails. */
final class ProcessRank {
    private static final long LOOKED_AT_BYTES = 10_000;

    private ProcessRank() {}

    public static void main(String[] args) {
        RankInfo me = RankInfo.fromEnvironment(System.getenv()).orElseThrow();
        int steps = Integer.parseInt(args[0]);
        long rowBytes = Long.parseLong(args[2]);
        Duration deadline = Duration.ofMillis(Integer.parseInt(args[1]));
        try (Communicator c = TcpCommunicator.join(me, "world", Ranks.DEADLINE, deadline);
                Arena arena = Arena.ofShared()) {
            MemorySegment mine = Ranks.pattern(arena, rowBytes, c.rank());
            MemorySegment theirs = arena.allocate(rowBytes);
            int next = (c.rank() + 1) % c.size();
            int previous = (c.rank() + c.size() - 1) % c.size();
            for (int step = 0; step < steps; step++) {
                c.exchange(
                                Call.of(Call.Kind.EXCHANGE, "step " + step),
                                List.of(new Segment(next, mine.address(), rowBytes)),
                                List.of(new Segment(previous, theirs.address(), rowBytes)))
                        .await();
                if (step == 0) {
                    System.out.println("rows have gone round");
                }
                // Megabytes take longer to look at than to send.
                if (step == 0 || rowBytes <= LOOKED_AT_BYTES) {
                    Ranks.assertPattern(theirs, rowBytes, previous);
                }
            }
            System.out.println("done");
        } catch (KcpException e) {
            System.out.println(e.getMessage());
            System.exit(e.code().exitCode());
        }
    }
}
