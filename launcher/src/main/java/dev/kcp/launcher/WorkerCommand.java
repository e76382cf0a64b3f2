package dev.kcp.launcher;

import java.io.File;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/** The command line of a worker that runs a {@code kcp} command in a JVM like this one. */
final class WorkerCommand {
    /** What every JVM that runs kcp needs; the {@code kcp} script passes the same. */
    private static final List<String> JVM_FLAGS = List.of(
            "--add-modules=jdk.incubator.vector",
            "--enable-native-access=ALL-UNNAMED",
            // JavaCPP counts all of the process's memory against its limit, mapped GPU memory too.
            "-Dorg.bytedeco.javacpp.maxPhysicalBytes=0");

    /** Options for other JVMs, which could keep this one from starting. */
    private static final List<String> OTHERS_OPTIONS =
            List.of("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS");

    private WorkerCommand() {}

    /**
     * Workers that run {@code kcp KCP_ARGUMENTS} with this JVM's java, class path and flags. Each has its own temporary
     * folder, since native libraries are unpacked there under fixed names, and leaves a crash log in the working
     * directory.
     */
    static LaunchSpec.RankCommand ofThisJvm(List<String> kcpArguments) {
        List<String> arguments = List.copyOf(kcpArguments);
        return (rank, scratch) -> {
            List<String> command = withVariables(Set.of());
            command.add(java());
            command.addAll(flags(ManagementFactory.getRuntimeMXBean().getInputArguments()));
            command.addAll(ownFiles(rank, scratch));
            command.add("-cp");
            command.add(absoluteClassPath(System.getProperty("java.class.path")));
            command.add(Main.class.getName());
            command.addAll(arguments);
            return command;
        };
    }

    /**
     * Ranks that run a Java class with this JVM's java and the settings that every JVM with kcp needs.
     *
     * @param mainClass its name
     * @param jvmArguments further flags, which come last and so win
     * @param chosen variables that the user has set for the ranks
     * @param classPath what comes before kcp's own class path, or null
     */
    static LaunchSpec.RankCommand ofClass(
            String mainClass, List<String> jvmArguments, Set<String> chosen, String classPath, List<String> arguments) {
        String own = absoluteClassPath(System.getProperty("java.class.path"));
        String all = classPath == null || classPath.isEmpty() ? own : classPath + File.pathSeparator + own;
        return (rank, scratch) -> {
            List<String> command = withVariables(chosen);
            command.add(java());
            command.addAll(JVM_FLAGS);
            command.addAll(workingFolder());
            command.addAll(ownFiles(rank, scratch));
            command.addAll(jvmArguments);
            command.addAll(List.of("-cp", all, mainClass));
            command.addAll(arguments);
            return command;
        };
    }

    /** What only one JVM may have: a temporary folder, since natives unpack there under fixed names, and a crash log. */
    private static List<String> ownFiles(int rank, Path scratch) {
        return List.of(
                "-Djava.io.tmpdir=" + scratch.toAbsolutePath(),
                "-XX:ErrorFile=" + Path.of("").toAbsolutePath() + "/hs_err_pid%p_rank" + rank + ".log");
    }

    /** Starts a JVM with the variables that the {@code kcp} script gives one, but for those that were chosen. */
    private static List<String> withVariables(Set<String> chosen) {
        List<String> words = new ArrayList<>(List.of("/usr/bin/env"));
        for (String name : OTHERS_OPTIONS) {
            if (!chosen.contains(name)) {
                words.addAll(List.of("-u", name));
            }
        }
        if (!chosen.contains("LC_ALL")) {
            words.add("LC_ALL=C.UTF-8");
        }
        return words;
    }

    /** How the {@code kcp} script has a JVM name a working folder whose name is no text. */
    private static List<String> workingFolder() {
        String unnamed = "/proc/self/cwd";
        return System.getProperty("user.dir").equals(unnamed) ? List.of("-Duser.dir=" + unnamed) : List.of();
    }

    /** {@code own} flags without those that only one JVM can have, and all of {@link #JVM_FLAGS} that are missing. */
    static List<String> flags(List<String> own) {
        List<String> flags = new ArrayList<>(own);
        flags.removeIf(flag -> flag.startsWith("-Djava.io.tmpdir=")
                || flag.startsWith("-XX:ErrorFile=")
                || flag.startsWith("-agentlib:jdwp")
                || flag.startsWith("-Xrunjdwp")
                || flag.startsWith("-Dcom.sun.management.jmxremote"));
        for (String needed : JVM_FLAGS) {
            if (!flags.contains(needed)) {
                flags.add(needed);
            }
        }
        return flags;
    }

    private static String absoluteClassPath(String classPath) {
        List<String> entries = new ArrayList<>();
        for (String entry : classPath.split(File.pathSeparator)) {
            entries.add(Path.of(entry).toAbsolutePath().toString());
        }
        return String.join(File.pathSeparator, entries);
    }

    private static String java() {
        Path home = Path.of(System.getProperty("java.home"), "bin", "java");
        return Files.isExecutable(home)
                ? home.toString()
                : ProcessHandle.current().info().command().orElse("java");
    }
}
