package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.multirank.FaultRank.Fault;
import dev.kcp.multirank.FaultRank.Place;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * One rank of four does something wrong: the job ends in bounded time, and every survivor and the launcher name that rank;
 * or what it did is no fault, and the bits are those of a clean step. Ten cells by default, all of them with
 * {@code -Dkcp.faults=all}. The matrix is printed at the end.
 */
@Timeout(120)
class FaultMatrixTest {
    private static final int RANKS = 4;
    private static final int SHOWN_CHARS = 150;
    private static final Duration SLACK = Duration.ofSeconds(5);

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

    private record Cell(Fault fault, Place place, Outcome outcome, double seconds, String said) {}

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

    static Stream<Arguments> cells() {
        boolean all = "all".equals(System.getProperty("kcp.faults"));
        return Stream.of(Fault.values()).filter(fault -> fault != Fault.NONE).flatMap(fault -> Stream.of(Place.values())
                .filter(place -> all || place == representative(fault))
                .map(place -> Arguments.of(fault, place)));
    }

    private static Place representative(Fault fault) {
        return Place.values()[fault.ordinal() % Place.values().length];
    }

    @ParameterizedTest(name = "{0} in {1}")
    @MethodSource("cells")
    void everySurvivorAndTheLauncherNameTheCulprit(Fault fault, Place place) {
        Outcome outcome = expected(fault, place);
        try (KcpProcess job = KcpProcess.start(command(fault, place))) {
            KcpProcess.Result result = job.await();
            double seconds = (System.currentTimeMillis() - faultMillis(result.out())) / 1e3;
            SEEN.add(new Cell(fault, place, null, seconds, ""));
            String all = result.out() + result.err();
            if (outcome == Outcome.SAME_BITS) {
                assertThat(result.exitCode()).as(all).isZero();
                assertThat(result.out().lines().filter(line -> line.endsWith("same bits")))
                        .as(all)
                        .hasSize(RANKS);
                seen(outcome, "same bits");
                return;
            }
            assertThat(result.exitCode()).as(all).isNotZero();
            assertThat(seconds)
                    .as(all)
                    .isLessThan(FaultRank.DEADLINE.plus(SLACK).toMillis() / 1e3);
            for (int rank = 0; rank < RANKS; rank++) {
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
            seen(
                    outcome,
                    result.err()
                            .lines()
                            .filter(line -> line.startsWith(spoken) && line.contains("rank " + FaultRank.CULPRIT))
                            .findFirst()
                            .orElseThrow()
                            .substring(spoken.length()));
        }
    }

    /** The cell's test has passed with this outcome. */
    private static void seen(Outcome outcome, String said) {
        Cell cell = SEEN.removeLast();
        SEEN.add(new Cell(cell.fault(), cell.place(), outcome, cell.seconds(), said));
    }

    private static long faultMillis(String out) {
        String line = out.lines()
                .filter(text -> text.contains("] fault "))
                .findFirst()
                .orElseThrow(() -> new AssertionError("the fault did not come: " + out));
        return Long.parseLong(line.substring(line.lastIndexOf(' ') + 1));
    }

    private static String[] command(Fault fault, Place place) {
        return new String[] {
            "run",
            "-n",
            Integer.toString(RANKS),
            "--grace",
            "2",
            "--",
            ProcessHandle.current().info().command().orElseThrow(),
            "--add-modules=jdk.incubator.vector",
            "--enable-native-access=ALL-UNNAMED",
            "-XX:TieredStopAtLevel=1",
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
        System.out.println(
                "fault matrix: 4 ranks, culprit rank 2, deadline 2 s; seconds from the fault to the job's end, and what rank 0 said");
        for (Cell cell : SEEN) {
            System.out.printf(
                    "  %-18s %-9s %-25s %5.2f s  %s%n",
                    cell.fault(),
                    cell.place(),
                    cell.outcome() == null ? "FAILED" : cell.outcome(),
                    cell.seconds(),
                    cell.said().length() > SHOWN_CHARS ? cell.said().substring(0, SHOWN_CHARS) + "..." : cell.said());
        }
    }
}
