package dev.kcp.launcher;

import dev.kcp.KcpException;
import dev.kcp.comm.Communicator;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A fault that a user asks for, to see that a job ends well: what happens to which rank, right before which step.
 *
 * @param rank the rank it strikes
 * @param step counted from 1
 */
record Injection(Kind kind, int rank, int step) {
    /** What can be made to happen. */
    enum Kind {
        /** The process gets SIGKILL. */
        KILL,
        /** The rank stops for good, but lives. */
        HANG,
        /** The rank throws. */
        THROW,
        /** The rank takes a second longer in this step and every later one. */
        SLOW,
        /** All ranks make a collective call, and this rank another one than the others. */
        DESYNC
    }

    private static final Pattern FORM = Pattern.compile("([a-z]+)@(\\d{1,9}):(\\d{1,9})");
    private static final long SLOW_MILLIS = 1000;
    private static final String DESYNC_LABEL = "injected call";

    /**
     * Reads faults written as {@code kind@rank:step}.
     *
     * @throws IllegalArgumentException if one is no such fault, or there is no such rank or step
     */
    static List<Injection> parse(List<String> texts, int ranks, int steps) {
        List<Injection> faults = new ArrayList<>();
        for (String text : texts) {
            Matcher matcher = FORM.matcher(text.toLowerCase(Locale.ROOT));
            if (!matcher.matches()) {
                throw new IllegalArgumentException("not kind@rank:step: inject=" + text);
            }
            Injection fault = new Injection(
                    kind(matcher.group(1), text),
                    Integer.parseInt(matcher.group(2)),
                    Integer.parseInt(matcher.group(3)));
            if (fault.rank() >= ranks || fault.step() < 1 || fault.step() > steps) {
                throw new IllegalArgumentException(
                        "no such rank or step: inject=" + text + " world=" + ranks + " steps=" + steps);
            }
            faults.add(fault);
        }
        return faults;
    }

    private static Kind kind(String name, String text) {
        for (Kind kind : Kind.values()) {
            if (kind.name().equalsIgnoreCase(name)) {
                return kind;
            }
        }
        throw new IllegalArgumentException("not one of kill, hang, throw, slow, desync: inject=" + text);
    }

    /** Does what is due on this rank before {@code nextStep}. */
    static void before(int nextStep, List<Injection> faults, Communicator communicator) {
        for (Injection fault : faults) {
            boolean isDue = fault.kind() == Kind.SLOW ? nextStep >= fault.step() : nextStep == fault.step();
            if (isDue && fault.rank() == communicator.rank()) {
                fault.strike(communicator);
            } else if (isDue && fault.kind() == Kind.DESYNC) {
                communicator.barrier(DESYNC_LABEL);
            }
        }
    }

    private void strike(Communicator communicator) {
        if (kind != Kind.SLOW) {
            System.err.println(
                    "kcp: injected fault: " + kind.name().toLowerCase(Locale.ROOT) + "@" + rank + ":" + step);
        }
        switch (kind) {
            case KILL -> kill();
            case HANG -> sleep(Long.MAX_VALUE);
            case THROW ->
                throw new KcpException(
                        KcpException.Code.RANK_FAILED, "injected failure: rank=" + rank + " step=" + step);
            case SLOW -> sleep(SLOW_MILLIS);
            case DESYNC -> communicator.allGather(DESYNC_LABEL, new byte[Long.BYTES]);
        }
    }

    /** A JVM may not destroy itself by its own handle. */
    private static void kill() {
        try {
            new ProcessBuilder("/bin/sh", "-c", "kill -s KILL $PPID").start();
        } catch (IOException e) {
            throw new java.io.UncheckedIOException("no process to send SIGKILL", e);
        }
        sleep(Long.MAX_VALUE);
    }

    private static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
