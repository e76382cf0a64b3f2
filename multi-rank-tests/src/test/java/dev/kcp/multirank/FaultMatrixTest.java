package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.comm.HostAndPort;
import dev.kcp.comm.RankInfo;
import dev.kcp.comm.StoreServer;
import dev.kcp.conv.Eventually;
import dev.kcp.multirank.FaultRank.Fault;
import dev.kcp.multirank.FaultRank.Place;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BiPredicate;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * One rank of four does something wrong: every survivor and the launcher name that rank, long before the deadline unless it
 * was stopped; or what it did is no fault, and the bits are those of a clean step. Calls that differ are made by ranks that
 * are threads, ends of ranks by processes; the profile {@code heavy} has processes make every cell. The matrix is printed
 * at the end.
 */
class FaultMatrixTest {
    private static final int SHOWN_CHARS = 150;

    /** Faults that end the rank or stop it. */
    private static final Set<Fault> BY_PROCESSES =
            EnumSet.of(Fault.THROW, Fault.EXIT_0, Fault.EXIT_3, Fault.SIGKILL, Fault.SIGSTOP);

    /** What must become of a cell. */
    enum Outcome {
        /** Every rank ends with an error that names the culprit. */
        REPORTED,
        /** As {@link #REPORTED}, and the culprit's own call threw before any exchange. */
        REFUSED_LOCALLY,
        /** As {@link #REPORTED}, by the first exchange after the place, since the place itself exchanges nothing. */
        REPORTED_AT_NEXT_EXCHANGE,
        /** Not a fault: the step ends with the bits of a clean one. */
        SAME_BITS
    }

    private record Cell(Fault fault, Place place, Outcome outcome, String said) {}

    private static final List<Cell> SEEN = new ArrayList<>();

    private static Outcome expected(Fault fault, Place place) {
        return switch (fault) {
            case WRONG_DTYPE -> Outcome.REFUSED_LOCALLY;
            case WRONG_CHANNELS -> place == Place.FORWARD ? Outcome.REPORTED : Outcome.REFUSED_LOCALLY;
            case SWAPPED_ORDER, SKIPPED_CALL -> place == Place.RECOMPUTE ? Outcome.SAME_BITS : Outcome.REPORTED;
            case HANDLE_ON_ONE_RANK ->
                switch (place) {
                    case FORWARD -> Outcome.REPORTED;
                    case RECOMPUTE -> Outcome.REPORTED_AT_NEXT_EXCHANGE;
                    case BACKWARD -> Outcome.SAME_BITS;
                };
            case NONE, THROW, EXIT_0, EXIT_3, SIGKILL, SIGSTOP ->
                place == Place.RECOMPUTE ? Outcome.REPORTED_AT_NEXT_EXCHANGE : Outcome.REPORTED;
        };
    }

    private static Stream<Arguments> cells(BiPredicate<Fault, Place> which) {
        return Stream.of(Fault.values()).filter(fault -> fault != Fault.NONE).flatMap(fault -> Stream.of(Place.values())
                .filter(place -> which.test(fault, place))
                .map(place -> Arguments.of(fault, place)));
    }

    static Stream<Arguments> callsThatDiffer() {
        return cells((fault, place) -> !BY_PROCESSES.contains(fault));
    }

    /** Each fault of processes once, and one call that is refused. */
    static Stream<Arguments> representatives() {
        return cells((fault, place) -> (BY_PROCESSES.contains(fault) || fault == Fault.WRONG_DTYPE)
                && place == Place.values()[fault.ordinal() % Place.values().length]);
    }

    static Stream<Arguments> all() {
        return cells((fault, place) -> true);
    }

    @ParameterizedTest(name = "{0} in {1}")
    @MethodSource("callsThatDiffer")
    void everyThreadNamesTheCulprit(Fault fault, Place place) throws Exception {
        AtomicBoolean came = new AtomicBoolean();
        List<Future<String>> ends = new ArrayList<>();
        try (StoreServer store = StoreServer.start("127.0.0.1", 0, "job", "secret");
                ExecutorService threads = Executors.newFixedThreadPool(FaultRank.RANKS)) {
            HostAndPort at = new HostAndPort("127.0.0.1", store.port());
            for (int rank = 0; rank < FaultRank.RANKS; rank++) {
                RankInfo me = new RankInfo(rank, rank, FaultRank.RANKS, FaultRank.RANKS, null, 0, at, "job", "secret");
                ends.add(threads.submit(() -> {
                    try {
                        boolean same = FaultRank.run(me, fault, place, Eventually.LIMIT, null, () -> came.set(true));
                        return same ? "same bits" : "other bits";
                    } catch (RuntimeException e) {
                        return e.getMessage();
                    }
                }));
            }
        }
        assertThat(came).isTrue();
        Outcome outcome = expected(fault, place);
        for (int rank = 0; rank < FaultRank.RANKS; rank++) {
            String said = ends.get(rank).get();
            if (outcome == Outcome.SAME_BITS) {
                assertThat(said).isEqualTo("same bits");
            } else if (rank != FaultRank.CULPRIT) {
                assertThat(said).contains("rank " + FaultRank.CULPRIT).doesNotContain("waited too long");
                if (outcome == Outcome.REFUSED_LOCALLY) {
                    assertThat(said).contains("rank " + FaultRank.CULPRIT + " failed: layer");
                }
            }
        }
        SEEN.add(new Cell(fault, place, outcome, ends.getFirst().get()));
    }

    @ParameterizedTest(name = "{0} in {1}")
    @MethodSource("representatives")
    void everySurvivorAndTheLauncherNameTheCulprit(Fault fault, Place place) {
        Outcome outcome = expected(fault, place);
        KcpProcess.Result result = KcpProcess.run(command(fault, place));
        String all = result.out() + result.err();
        assertThat(result.out()).as(all).contains("] fault\n");
        if (outcome == Outcome.SAME_BITS) {
            assertThat(result.exitCode()).as(all).isZero();
            assertThat(result.out().lines().filter(line -> line.endsWith("same bits")))
                    .as(all)
                    .hasSize(FaultRank.RANKS);
            SEEN.add(new Cell(fault, place, outcome, "same bits"));
            return;
        }
        assertThat(result.exitCode()).as(all).isNotZero();
        assertThat(all.contains("waited too long")).as(all).isEqualTo(fault == Fault.SIGSTOP);
        for (int rank = 0; rank < FaultRank.RANKS; rank++) {
            if (rank != FaultRank.CULPRIT) {
                String prefix = "[rank " + rank + "]";
                assertThat(result.err().lines())
                        .as("what rank %d says in %s", rank, all)
                        .anyMatch(line -> line.startsWith(prefix)
                                && line.substring(prefix.length()).contains("rank " + FaultRank.CULPRIT));
            }
        }
        assertThat(result.err().lines())
                .as("what the launcher says in %s", all)
                .anyMatch(line -> line.startsWith("kcp:") && line.contains("rank " + FaultRank.CULPRIT));
        if (fault == Fault.SIGSTOP || fault == Fault.SIGKILL) {
            assertThat(result.err().lines())
                    .as("what the ranks' calls tell in %s", all)
                    .anyMatch(line -> line.startsWith("kcp:   calls: rank " + FaultRank.CULPRIT + " "));
        }
        if (outcome == Outcome.REFUSED_LOCALLY) {
            assertThat(all).contains("rank " + FaultRank.CULPRIT + " failed: layer");
        }
        String spoken = "[rank 0] ";
        String said = result.err()
                .lines()
                .filter(line -> line.startsWith(spoken) && line.contains("rank " + FaultRank.CULPRIT))
                .findFirst()
                .orElseThrow()
                .substring(spoken.length());
        SEEN.add(new Cell(fault, place, outcome, said));
    }

    @ParameterizedTest(name = "{0} in {1}")
    @Tag("heavy")
    @MethodSource("all")
    void processesMakeEveryCell(Fault fault, Place place) {
        everySurvivorAndTheLauncherNameTheCulprit(fault, place);
    }

    private static String[] command(Fault fault, Place place) {
        return new String[] {
            "run",
            "-n",
            Integer.toString(FaultRank.RANKS),
            // Survivors have all the time they need; a rank that is stopped lasts as long as this.
            "--grace",
            fault == Fault.SIGSTOP ? "5" : "60",
            "--",
            ProcessHandle.current().info().command().orElseThrow(),
            "--add-modules=jdk.incubator.vector",
            "--enable-native-access=ALL-UNNAMED",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Xmx128m",
            "-cp",
            System.getProperty("java.class.path"),
            FaultRank.class.getName(),
            fault.name(),
            place.name()
        };
    }

    @AfterAll
    static void printMatrix() {
        System.out.println("fault matrix: 4 ranks, culprit rank 2, and what rank 0 said");
        for (Cell cell : SEEN) {
            System.out.printf(
                    "  %-18s %-9s %-25s %s%n",
                    cell.fault(),
                    cell.place(),
                    cell.outcome(),
                    cell.said().length() > SHOWN_CHARS ? cell.said().substring(0, SHOWN_CHARS) + "..." : cell.said());
        }
    }
}
