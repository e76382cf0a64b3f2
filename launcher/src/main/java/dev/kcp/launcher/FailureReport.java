package dev.kcp.launcher;

import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.function.IntFunction;
import java.util.stream.Collectors;

/**
 * Why a job failed: the first failure by time, and what became of the other ranks.
 *
 * @param host the machine's name
 * @param startedAt when the first rank was started
 * @param first the first rank that failed of itself, empty where a limit ended the job
 * @param overdue which limit of the launcher passed, if one did
 * @param ends how every rank ended, by rank
 * @param traces what ranks left behind, by rank; empty for those that left nothing
 * @param calls which ranks are behind in their collective calls and where they differ, if they kept a record
 */
record FailureReport(
        String host,
        Instant startedAt,
        Optional<RankEnd> first,
        Optional<Overdue> overdue,
        List<RankEnd> ends,
        Map<Integer, RankTrace> traces,
        List<String> calls) {

    /** So many hung ranks have their main thread shown on the console; the JSON has all. */
    private static final int SHOWN_STACKS = 2;

    private static final int SHOWN_CALLS = 12;

    FailureReport {
        ends = List.copyOf(ends);
        traces = Map.copyOf(traces);
        calls = List.copyOf(calls);
    }

    RankTrace trace(int rank) {
        return traces.getOrDefault(rank, RankTrace.NONE);
    }

    /**
     * The first failure by time among ranks that failed of themselves.
     *
     * @param secondaryCode an exit code by which a rank says that another rank had failed before, or -1: such a rank
     *     comes after all others, since the news of a death may arrive before the death is seen here
     * @param blamed whom a rank's last words name: a rank comes after the one that it names
     */
    static Optional<RankEnd> firstFailure(List<RankEnd> ends, int secondaryCode, IntFunction<OptionalInt> blamed) {
        List<RankEnd> failed = ends.stream().filter(RankEnd::failedItself).toList();
        Set<Integer> ranks = failed.stream().map(RankEnd::rank).collect(Collectors.toSet());
        return failed.stream()
                .min(Comparator.comparing((RankEnd end) -> end.status().value() == secondaryCode)
                        .thenComparing(
                                end -> ranks.contains(blamed.apply(end.rank()).orElse(-1)))
                        .thenComparing(RankEnd::at)
                        .thenComparing(RankEnd::rank));
    }

    /** The block for stderr: the key line first, then the other ranks, equal ends together; ends with a newline. */
    String text() {
        StringBuilder text = new StringBuilder("kcp: ");
        if (overdue.isPresent()) {
            text.append(overdue.get().text()).append(": host=").append(host);
        } else {
            RankEnd end = first.orElseThrow();
            text.append("rank ")
                    .append(end.rank())
                    .append(' ')
                    .append(end.describe())
                    .append(" after ")
                    .append(seconds(Duration.between(startedAt, end.at())))
                    .append(": host=")
                    .append(host)
                    .append(" pid=")
                    .append(end.pid());
        }
        text.append('\n');
        first.ifPresent(end -> {
            RankTrace trace = trace(end.rank());
            appendTrace(text, "its", trace);
            Blame.of(end.rank(), trace.lastLines())
                    .ifPresent(rank -> appendTrace(text, "rank " + rank + "'s", trace(rank)));
        });
        Map<String, List<Integer>> others = new LinkedHashMap<>();
        for (RankEnd end : ends) {
            if (first.isEmpty() || end.rank() != first.get().rank()) {
                others.computeIfAbsent(end.describe(), key -> new ArrayList<>()).add(end.rank());
            }
        }
        others.forEach((how, ranks) -> text.append("kcp:   ")
                .append(ranks.size() == 1 ? "rank " : "ranks ")
                .append(listed(ranks))
                .append(' ')
                .append(ranks.size() == 1 ? how : how.replace("was ended", "were ended"))
                .append('\n'));
        if (first.isEmpty()) {
            appendHungRanks(text);
        }
        for (String line : calls.subList(0, Math.min(SHOWN_CALLS, calls.size()))) {
            text.append("kcp:   calls: ").append(line).append('\n');
        }
        return text.toString();
    }

    private void appendHungRanks(StringBuilder text) {
        List<Integer> hung = ends.stream()
                .filter(end -> end.cause() != RankEnd.Cause.OWN)
                .map(RankEnd::rank)
                .toList();
        for (int rank : hung.subList(0, Math.min(SHOWN_STACKS, hung.size()))) {
            appendTrace(text, "rank " + rank + "'s", trace(rank));
        }
    }

    private static void appendTrace(StringBuilder text, String whose, RankTrace trace) {
        trace.message().ifPresent(message -> text.append("kcp:   ")
                .append(whose)
                .append(" last words: ")
                .append(message)
                .append('\n'));
        trace.crashFile().ifPresent(file -> text.append("kcp:   ")
                .append(whose)
                .append(" crash log: ")
                .append(file)
                .append('\n'));
        if (!trace.lastCalls().isEmpty()) {
            text.append("kcp:   ")
                    .append(whose)
                    .append(" last call: ")
                    .append(trace.lastCalls().getLast())
                    .append('\n');
        }
        for (Path log : trace.logs()) {
            text.append("kcp:   ").append(whose).append(" log: ").append(log).append('\n');
        }
        for (String line : ThreadDumps.mainThread(trace.threadDump())) {
            text.append("kcp:   ")
                    .append(whose)
                    .append(" threads: ")
                    .append(line)
                    .append('\n');
        }
    }

    /** {@code 0, 2-5, 9} for rising ranks. */
    static String listed(List<Integer> ranks) {
        List<String> runs = new ArrayList<>();
        for (int begin = 0; begin < ranks.size(); ) {
            int end = begin + 1;
            while (end < ranks.size() && ranks.get(end) == ranks.get(end - 1) + 1) {
                end++;
            }
            int last = ranks.get(end - 1);
            runs.add(
                    end - begin < 3 && end - begin > 1
                            ? ranks.get(begin) + ", " + last
                            : ranks.get(begin) + (end - begin > 1 ? "-" + last : ""));
            begin = end;
        }
        return String.join(", ", runs);
    }

    private static String seconds(Duration time) {
        return String.format(Locale.ROOT, "%.1f s", Math.max(0, time.toMillis()) / 1e3);
    }
}
