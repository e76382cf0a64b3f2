package dev.kcp.launcher;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** What the threads of hung ranks were doing, taken with the JDK's own jcmd while they still live. */
final class ThreadDumps {
    /** Of a large job the first ranks tell enough, and the machine is not to be kept busy with asking. */
    private static final int MOST_RANKS = 8;

    private static final int MAIN_THREAD_LINES = 12;

    private ThreadDumps() {}

    /**
     * Asks the JVMs in the ranks' process groups for their threads, all at once.
     *
     * @param groups process group by rank
     * @param scratch an existing folder for the answers
     * @param limit longest time for all of them; a JVM that does not answer by then is left out
     * @return the lines of the dump by rank; ranks that are no JVM are left out, and all where there is no jcmd
     */
    static Map<Integer, List<String>> take(Map<Integer, Long> groups, Path scratch, Duration limit) {
        Optional<Path> jcmd = jcmd();
        if (jcmd.isEmpty()) {
            return Map.of();
        }
        Map<Integer, Process> asked = new LinkedHashMap<>();
        List<Long> askedJvms = new ArrayList<>();
        Map<Integer, List<String>> dumps = new LinkedHashMap<>();
        long end = System.nanoTime() + limit.toNanos();
        try {
            Map<Long, Long> jvms = jvmOfGroup();
            for (Map.Entry<Integer, Long> group : groups.entrySet()) {
                Long jvm = jvms.get(group.getValue());
                if (jvm != null && asked.size() < MOST_RANKS) {
                    askedJvms.add(jvm);
                    asked.put(group.getKey(), ask(jcmd.get(), jvm, answer(scratch, group.getKey())));
                }
            }
            for (Map.Entry<Integer, Process> question : asked.entrySet()) {
                if (question.getValue().waitFor(end - System.nanoTime(), TimeUnit.NANOSECONDS)
                        && question.getValue().exitValue() == 0) {
                    dumps.put(
                            question.getKey(),
                            Files.readAllLines(answer(scratch, question.getKey()), StandardCharsets.UTF_8));
                }
            }
        } catch (IOException e) {
            System.getLogger(ThreadDumps.class.getName())
                    .log(System.Logger.Level.DEBUG, "no thread dumps: jcmd=" + jcmd.get(), e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            asked.values().forEach(Process::destroyForcibly);
            askedJvms.forEach(ThreadDumps::removeQuestion);
        }
        return dumps;
    }

    /** A jcmd that was cut short, since the JVM was stopped, leaves its question in the JVM's working folder. */
    private static void removeQuestion(long jvm) {
        try {
            Files.deleteIfExists(Path.of("/proc/" + jvm + "/cwd/.attach_pid" + jvm));
        } catch (IOException gone) {
            // The process ended, and nobody can tell where it was.
        }
    }

    private static Path answer(Path scratch, int rank) {
        return scratch.resolve("threads-" + rank);
    }

    private static Process ask(Path jcmd, long jvm, Path answer) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(
                        jcmd.toString(), "-J-XX:TieredStopAtLevel=1", Long.toString(jvm), "Thread.print")
                .redirectOutput(answer.toFile())
                .redirectError(ProcessBuilder.Redirect.DISCARD);
        builder.environment().remove("JAVA_TOOL_OPTIONS");
        return builder.start();
    }

    /** The first JVM of every process group that has one. */
    private static Map<Long, Long> jvmOfGroup() throws IOException {
        Map<Long, Long> jvms = new LinkedHashMap<>();
        try (DirectoryStream<Path> all = Files.newDirectoryStream(Path.of("/proc"), "[0-9]*")) {
            for (Path process : all) {
                try {
                    String stat = Files.readString(process.resolve("stat"), StandardCharsets.ISO_8859_1);
                    String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
                    Path program = Files.readSymbolicLink(process.resolve("exe"));
                    if (program.endsWith("java")
                            || Files.readString(process.resolve("maps"), StandardCharsets.ISO_8859_1)
                                    .contains("/libjvm.so")) {
                        jvms.putIfAbsent(
                                Long.parseLong(fields[2]),
                                Long.parseLong(process.getFileName().toString()));
                    }
                } catch (IOException gone) {
                    // It ended while we looked, or belongs to somebody else.
                }
            }
        }
        return jvms;
    }

    private static Optional<Path> jcmd() {
        Path own = Path.of(System.getProperty("java.home"), "bin", "jcmd");
        return Files.isExecutable(own) ? Optional.of(own) : Programs.find("jcmd", System.getenv("PATH"));
    }

    /** Where the main thread of a dump was: its heading and the innermost frames. */
    static List<String> mainThread(List<String> dump) {
        List<String> lines = new ArrayList<>();
        for (String line : dump) {
            boolean isInside = !lines.isEmpty() && !line.isBlank();
            if (isInside || line.startsWith("\"main\" ")) {
                lines.add(line.strip());
            } else if (!lines.isEmpty()) {
                break;
            }
        }
        return lines.subList(0, Math.min(lines.size(), MAIN_THREAD_LINES));
    }
}
