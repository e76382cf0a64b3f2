package dev.kcp.launcher;

import dev.kcp.KcpException;
import dev.kcp.files.FileFailures;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.SequencedMap;
import java.util.Set;
import java.util.function.Function;
import picocli.CommandLine;
import picocli.CommandLine.ParameterException;

/** Entry of the {@code kcp} command; the one place where a failure becomes a line on stderr and an exit code. */
public final class Main {
    private static final String STACK_TRACES = "--stack-traces";
    private static final String COMPLETION = "completion";

    /** Every command, in the order of the usage text; a new one is one line here. */
    private static final SequencedMap<String, Function<Map<String, String>, Object>> COMMANDS = new LinkedHashMap<>();

    static {
        COMMANDS.put("train", TrainCommand::new);
        COMMANDS.put("conv", ConvCommand::new);
        COMMANDS.put("run", RunCommand::new);
        COMMANDS.put("plan", environment -> new PlanCommand());
        COMMANDS.put("bench", BenchCommand::new);
        COMMANDS.put("doctor", DoctorCommand::new);
        COMMANDS.put(COMPLETION, environment -> new CompletionCommand());
        COMMANDS.put("warm", environment -> new WarmCommand());
    }

    private Main() {}

    /** Runs the command and ends the process with its exit code. */
    public static void main(String[] args) {
        PrintedOutput printed = PrintedOutput.install();
        System.exit(printed.exitCode(run(System.getenv(), args)));
    }

    /**
     * Runs one {@code kcp} command in this JVM.
     *
     * @param environment the process environment; {@code KCP_STACK_TRACES} set to anything acts as {@code --stack-traces}
     * @return the exit code: 0 done, 2 usage, 3 to 8 the {@link KcpException.Code}s, 1 anything else
     */
    public static int run(Map<String, String> environment, String... args) {
        return run(commandLine(environment, args), args);
    }

    static int run(CommandLine kcp, String... args) {
        try {
            return kcp.execute(args);
        } catch (Throwable failure) { // picocli hands on Errors: a missing native library, memory
            return report(failure, kcp);
        } finally {
            System.out.flush();
        }
    }

    /** The whole command tree. */
    static CommandLine commandLine(Map<String, String> environment) {
        return commandLine(environment, COMMANDS.keySet());
    }

    /**
     * The command tree as far as these arguments need it: reading the annotations of every command would take longer
     * than most starts.
     */
    static CommandLine commandLine(Map<String, String> environment, String... args) {
        boolean isPlain = args.length > 0 && COMMANDS.containsKey(args[0]) && !args[0].equals(COMPLETION);
        return commandLine(environment, isPlain ? Set.of(args[0]) : COMMANDS.keySet());
    }

    private static CommandLine commandLine(Map<String, String> environment, Set<String> names) {
        CommandLine kcp = new CommandLine(new KcpCommand(environment.containsKey("KCP_STACK_TRACES")));
        COMMANDS.forEach((name, make) -> {
            if (names.contains(name)) {
                kcp.addSubcommand(make.apply(environment));
            }
        });
        kcp.registerConverter(Path.class, Main::path);
        kcp.setExpandAtFiles(false);
        kcp.setUsageHelpWidth(110);
        kcp.setCaseInsensitiveEnumValuesAllowed(true);
        kcp.setParameterExceptionHandler((wrong, args) -> usage(wrong));
        kcp.setExecutionExceptionHandler((failure, command, parsed) -> report(failure, kcp));
        // A mistyped option is not one more path of --data.
        Optional.ofNullable(kcp.getSubcommands().get("train"))
                .ifPresent(train -> train.setUnmatchedOptionsAllowedAsOptionParameters(false));
        Optional.ofNullable(kcp.getSubcommands().get("run")).ifPresent(run -> {
            // The words after the program's name are the program's, whatever they look like.
            run.setStopAtPositional(true);
            run.setDefaultValueProvider(new EnvironmentDefaults(environment));
        });
        return kcp;
    }

    private static int usage(ParameterException wrong) {
        CommandLine command = wrong.getCommandLine();
        String name = command.getCommandSpec().qualifiedName();
        print(command.getErr(), name + ": " + oneLine(UsageLine.of(wrong)) + " (see " + name + " --help)");
        return ExitCode.USAGE;
    }

    private static int report(Throwable failure, CommandLine kcp) {
        String text =
                switch (failure) {
                    case KcpException known -> known.getMessage();
                    case IllegalArgumentException wrong when wrong.getMessage() != null -> wrong.getMessage();
                    case UncheckedIOException io
                    when io.getMessage() != null -> io.getMessage() + " cause=" + FileFailures.reason(io.getCause());
                    case FileSystemException file -> FileFailures.reason(file) + ": file=" + file.getFile();
                    case OutOfMemoryError memory -> "out of memory: " + memory.getMessage();
                    default -> failure.toString();
                };
        print(kcp.getErr(), "kcp: " + oneLine(text));
        KcpCommand root = kcp.getCommand();
        if (root.stackTraces) {
            StringWriter trace = new StringWriter();
            failure.printStackTrace(new PrintWriter(trace));
            print(kcp.getErr(), trace.toString().stripTrailing());
        }
        return exitCode(failure);
    }

    static int exitCode(Throwable failure) {
        return switch (failure) {
            case KcpException known -> known.code().exitCode();
            case IllegalArgumentException wrong -> ExitCode.USAGE;
            case FileSystemException file -> ExitCode.BAD_DATA;
            case UncheckedIOException io when io.getCause() instanceof FileSystemException -> ExitCode.BAD_DATA;
            default -> ExitCode.FAILED;
        };
    }

    /** {@code text} without line breaks: a refusal is one line, so that logs and scripts can hold it. */
    static String oneLine(String text) {
        return text.strip().replaceAll("\\s*\\R\\s*", " | ");
    }

    /** A line for the user on stderr, beside a command's work. */
    static void note(String text) {
        System.err.println("kcp: " + oneLine(text));
    }

    /** An empty path is mostly a variable that a script forgot to set; elsewhere it would mean the current folder. */
    static Path path(String text) {
        if (text.isEmpty()) {
            throw new IllegalArgumentException("a path is empty: path=");
        }
        return Path.of(text);
    }

    private static void print(PrintWriter err, String text) {
        err.println(text);
        err.flush();
    }

    /** {@code kcp} without a subcommand. */
    @CommandLine.Command(
            name = "kcp",
            mixinStandardHelpOptions = true,
            versionProvider = Version.class,
            description = "Context-parallel training: text sharded over ranks, causal convolutions with halo exchange.",
            synopsisSubcommandLabel = "COMMAND",
            footerHeading = "%nExamples:%n",
            footer = {
                "  kcp train --data book.txt --world 2",
                "  kcp conv --in case.safetensors --out result.safetensors --backward --world 2",
                "  kcp run -n 2 -- python3 train.py",
                "  kcp run --help",
                "  kcp plan --lengths 100,156 --world 2",
                "  kcp doctor",
                "",
                "Exit codes: 0 done, 1 other failure, 2 usage, 3 bad input or unwritable output, 4 rendezvous,",
                "5 a rank failed, 6 hang or deadline, 7 ranks disagree, 8 missing device or library,",
                "130/143 interrupted/terminated, 141 stdout was closed.",
                "Environment: KCP_JDK (JDK folder to use), KCP_JAVA_OPTS (options for the JVM), KCP_STACK_TRACES."
            })
    static final class KcpCommand implements java.util.concurrent.Callable<Integer> {
        @CommandLine.Option(
                names = STACK_TRACES,
                scope = CommandLine.ScopeType.INHERIT,
                description = "After a failure, print the Java stack trace too.")
        private boolean stackTraces;

        @CommandLine.Spec
        private CommandLine.Model.CommandSpec spec;

        KcpCommand(boolean stackTraces) {
            this.stackTraces = stackTraces;
        }

        @Override
        public Integer call() {
            spec.commandLine().usage(spec.commandLine().getErr());
            return ExitCode.USAGE;
        }
    }
}
