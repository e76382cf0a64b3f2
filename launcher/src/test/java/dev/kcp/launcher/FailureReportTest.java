package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;

class FailureReportTest {
    private static final Instant START = Instant.parse("2026-01-01T00:00:00Z");

    private static RankEnd end(int rank, int status, long afterMillis, RankEnd.Cause cause) {
        return new RankEnd(rank, 100 + rank, new ExitStatus(status), START.plusMillis(afterMillis), cause);
    }

    private static final IntFunction<OptionalInt> NOBODY = rank -> OptionalInt.empty();

    @Test
    void earliestFailureIsFirst() {
        List<RankEnd> ends = List.of(
                end(0, 1, 30, RankEnd.Cause.OWN),
                end(1, 0, 5, RankEnd.Cause.OWN),
                end(2, 9, 20, RankEnd.Cause.OWN),
                end(3, 143, 10, RankEnd.Cause.LAUNCHER));
        assertThat(FailureReport.firstFailure(ends, -1, NOBODY))
                .get()
                .extracting(RankEnd::rank)
                .isEqualTo(2);
    }

    @Test
    void rankThatReportsAnotherRanksDeathIsNotFirst() {
        List<RankEnd> ends = List.of(end(0, 5, 10, RankEnd.Cause.OWN), end(1, 137, 12, RankEnd.Cause.OWN));
        assertThat(FailureReport.firstFailure(ends, 5, NOBODY))
                .get()
                .extracting(RankEnd::rank)
                .isEqualTo(1);
        assertThat(FailureReport.firstFailure(ends, -1, NOBODY))
                .get()
                .extracting(RankEnd::rank)
                .isEqualTo(0);
        assertThat(FailureReport.firstFailure(ends.subList(0, 1), 5, NOBODY))
                .get()
                .extracting(RankEnd::rank)
                .isEqualTo(0);
    }

    private static final List<String> LEFT = List.of(
            "Exception in thread \"main\" dev.kcp.KcpException: rank 2 left the group before call 1: group=world",
            "\tat dev.kcp.comm.Failure.toException(Failure.java:37)");

    @Test
    void rankThatLastWordsNameFailedBeforeThoseThatSayThem() {
        List<RankEnd> ends = List.of(
                end(0, 1, 30, RankEnd.Cause.OWN),
                end(1, 1, 10, RankEnd.Cause.OWN),
                end(2, 1, 40, RankEnd.Cause.OWN),
                end(3, 1, 50, RankEnd.Cause.OWN));
        List<String> memory = List.of("Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space");
        List<List<String>> words = List.of(LEFT, LEFT, memory, LEFT);
        IntFunction<OptionalInt> blamed = rank -> Blame.of(rank, words.get(rank));
        assertThat(FailureReport.firstFailure(ends, -1, blamed)).get().isSameAs(ends.get(2));
        // One that was still there, or ended well, has not failed before.
        List<RankEnd> without = List.of(ends.get(0), ends.get(1), ends.get(3), end(2, 0, 40, RankEnd.Cause.OWN));
        assertThat(FailureReport.firstFailure(without, -1, blamed)).get().isSameAs(ends.get(1));
    }

    @Test
    void lastWordsBlameTheRankThatTheyBeginWith() {
        assertThat(Blame.of(0, LEFT)).hasValue(2);
        assertThat(Blame.of(2, LEFT)).isEmpty();
        assertThat(Blame.of(0, List.of("noise", "kcp: rank 12 is gone (connection closed)")))
                .hasValue(12);
        assertThat(Blame.of(0, List.of("loss of rank 3 is 4"))).isEmpty();
        assertThat(Blame.of(0, List.of())).isEmpty();
    }

    @Test
    void wordsOfTheRankThatTheFirstFailureNamesFollow() {
        List<RankEnd> ends = List.of(end(0, 1, 40, RankEnd.Cause.OWN), end(2, 143, 90, RankEnd.Cause.LAUNCHER));
        RankTrace left = new RankTrace(LEFT, List.of(), Optional.empty(), List.of(), List.of());
        RankTrace memory =
                new RankTrace(List.of("E: out of memory"), List.of(), Optional.empty(), List.of(), List.of());
        assertThat(new FailureReport(
                                "box",
                                START,
                                Optional.of(ends.getFirst()),
                                Optional.empty(),
                                ends,
                                Map.of(0, left, 2, memory),
                                List.of())
                        .text())
                .contains("kcp:   its last words: " + LEFT.getFirst()
                        + "\nkcp:   rank 2's last words: E: out of memory\n");
    }

    @Test
    void textNamesTheFirstFailureAndGroupsTheOthers() {
        List<RankEnd> ends = List.of(
                end(0, 143, 40, RankEnd.Cause.LAUNCHER),
                end(1, 137, 2500, RankEnd.Cause.OWN),
                end(2, 143, 40, RankEnd.Cause.LAUNCHER),
                end(3, 143, 40, RankEnd.Cause.LAUNCHER),
                end(4, 5, 40, RankEnd.Cause.OWN),
                end(5, 143, 40, RankEnd.Cause.LAUNCHER));
        String text = new FailureReport(
                        "box", START, Optional.of(ends.get(1)), Optional.empty(), ends, Map.of(), List.of())
                .text();
        assertThat(text).isEqualTo("""
                        kcp: rank 1 was ended by SIGKILL (signal 9) after 2.5 s: host=box pid=101
                        kcp:   ranks 0, 2, 3, 5 ended by kcp with SIGTERM
                        kcp:   rank 4 exited with code 5
                        """);
    }

    @Test
    void timeoutNamesNoRankAsFirst() {
        List<RankEnd> ends = List.of(end(0, 0, 40, RankEnd.Cause.OWN), end(1, 137, 3000, RankEnd.Cause.LAUNCHER));
        String text = new FailureReport(
                        "box",
                        START,
                        Optional.empty(),
                        Optional.of(Overdue.timeout(Duration.ofMillis(1500))),
                        ends,
                        Map.of(),
                        List.of())
                .text();
        assertThat(text).isEqualTo("""
                        kcp: the job passed its timeout of 1.5 s and was ended: host=box
                        kcp:   rank 0 exited with code 0
                        kcp:   rank 1 ended by kcp with SIGKILL
                        """);
    }

    @Test
    void runsOfRanksAreShort() {
        assertThat(FailureReport.listed(List.of(3))).isEqualTo("3");
        assertThat(FailureReport.listed(List.of(0, 1))).isEqualTo("0, 1");
        assertThat(FailureReport.listed(List.of(0, 2, 3, 4, 5, 9))).isEqualTo("0, 2-5, 9");
    }

    private static final RankTrace TRACE = new RankTrace(
            List.of("noise", "kcp: cut file: in=x"),
            List.of(Path.of("/logs/rank-1.err")),
            Optional.of(Path.of("/logs/hs_err_pid7_rank1.log")),
            List.of("{\"n\":6}", "{\"n\":7,\"kind\":\"HALO_FORWARD\"}", "{\"n\":"),
            List.of("\"GC\" os_prio=0", "", "\"main\" #1 prio=5", "\tat a.B.wait(B.java:3)", "", "\"other\""));

    @Test
    void traceOfTheFirstFailureFollowsItsLine() {
        List<RankEnd> ends = List.of(end(0, 143, 40, RankEnd.Cause.LAUNCHER), end(1, 3, 10, RankEnd.Cause.OWN));
        FailureReport report = new FailureReport(
                "box",
                START,
                Optional.of(ends.get(1)),
                Optional.empty(),
                ends,
                Map.of(1, TRACE),
                List.of("rank 0 is behind"));
        assertThat(report.text()).isEqualTo("""
                        kcp: rank 1 exited with code 3 after 0.0 s: host=box pid=101
                        kcp:   its last words: cut file: in=x
                        kcp:   its crash log: /logs/hs_err_pid7_rank1.log
                        kcp:   its last call: {"n":
                        kcp:   its log: /logs/rank-1.err
                        kcp:   its threads: "main" #1 prio=5
                        kcp:   its threads: at a.B.wait(B.java:3)
                        kcp:   rank 0 ended by kcp with SIGTERM
                        kcp:   calls: rank 0 is behind
                        """);
    }

    @Test
    void jsonHasWhatTheTextHas() {
        List<RankEnd> ends = List.of(end(0, 143, 40, RankEnd.Cause.LAUNCHER), end(1, 139, 1500, RankEnd.Cause.OWN));
        FailureReport report = new FailureReport(
                "box",
                START,
                Optional.of(ends.get(1)),
                Optional.empty(),
                ends,
                Map.of(1, TRACE),
                List.of("rank 0 is behind"));
        ObjectNode json = FailureJson.of(report, 5, 2);
        assertThat(json.get("exit_code").asInt()).isEqualTo(5);
        assertThat(json.get("reason").asText()).isEqualTo("rank_failed");
        assertThat(json.get("restarts").asInt()).isEqualTo(2);
        JsonNode first = json.get("first_failure");
        assertThat(first.get("rank").asInt()).isEqualTo(1);
        assertThat(first.get("pid").asInt()).isEqualTo(101);
        assertThat(first.get("host").asText()).isEqualTo("box");
        assertThat(first.get("signal").asText()).isEqualTo("SIGSEGV");
        assertThat(first.has("exit_code")).isFalse();
        assertThat(first.get("after_s").asDouble()).isEqualTo(1.5);
        assertThat(first.get("message").asText()).isEqualTo("cut file: in=x");
        assertThat(first.get("crash_file").asText()).endsWith("hs_err_pid7_rank1.log");
        assertThat(first.get("logs").get(0).asText()).isEqualTo("/logs/rank-1.err");
        assertThat(first.get("last_calls").get(1).get("kind").asText()).isEqualTo("HALO_FORWARD");
        assertThat(first.get("last_calls").get(2).asText()).isEqualTo("{\"n\":");
        assertThat(first.get("thread_dump")).hasSize(6);
        assertThat(json.get("calls").get(0).asText()).isEqualTo("rank 0 is behind");
        assertThat(json.get("ranks")).hasSize(2);
        assertThat(json.get("ranks").get(0).get("ended_by_launcher").asBoolean())
                .isTrue();
    }
}
