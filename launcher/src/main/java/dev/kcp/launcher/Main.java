package dev.kcp.launcher;

import dev.kcp.KcpException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Map;
import picocli.CommandLine;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.UnmatchedArgumentException;

/** Entry of the {@code kcp} command; the one place where a failure becomes a line on stderr and an exit code. */
public final class Main {
    private static final String STACK_TRACES = "--stack-traces";

    private Main() {}

    public static void main(String[] args) {
        System.exit(run(System.getenv(), args));
    }

    /**
     * Runs one {@code kcp} command in this JVM.
     *
     * @param environment the process environment; {@code KCP_STACK_TRACES} set to anything acts as {@code --stack-traces}
     * @return the exit code: 0 done, 2 usage, 3 to 8 the {@link KcpException.Code}s, 1 anything else
     */
    public static int run(Map<String, String> environment, String... args) {
        return run(commandLine(environment), args);
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

    /** The command tree; a new subcommand is one line here. */
    static CommandLine commandLine(Map<String, String> environment) {
        CommandLine kcp = new CommandLine(new KcpCommand(environment.containsKey("KCP_STACK_TRACES")))
                .addSubcommand(new RunCommand(environment))
                .addSubcommand(new TrainCommand(environment))
                .addSubcommand(new ConvCommand(environment))
                .addSubcommand(new BenchCommand())
                .addSubcommand(new CompletionCommand());
        kcp.setExpandAtFiles(false);
        kcp.setUsageHelpWidth(110);
        kcp.setCaseInsensitiveEnumValuesAllowed(true);
        kcp.setParameterExceptionHandler((wrong, args) -> usage(wrong));
        kcp.setExecutionExceptionHandler((failure, command, parsed) -> report(failure, kcp));
        // A mistyped option is not one more path of --data.
        kcp.getSubcommands().get("train").setUnmatchedOptionsAllowedAsOptionParameters(false);
        // The words after the program's name are the program's, whatever they look like.
        kcp.getSubcommands().get("run").setStopAtPositional(true);
        kcp.getSubcommands().get("run").setDefaultValueProvider(new EnvironmentDefaults(environment));
        return kcp;
    }

    private static int usage(ParameterException wrong) {
        CommandLine command = wrong.getCommandLine();
        String name = command.getCommandSpec().qualifiedName();
        String text = wrong.getMessage();
        if (wrong instanceof UnmatchedArgumentException unmatched
                && command.getParent() == null
                && !unmatched.isUnknownOption()) {
            text = "no such command: " + unmatched.getUnmatched().getFirst();
        }
        print(command.getErr(), name + ": " + oneLine(text) + " (see " + name + " --help)");
        return ExitCode.USAGE;
    }

    private static int report(Throwable failure, CommandLine kcp) {
        String text =
                switch (failure) {
                    case KcpException known -> known.getMessage();
                    case IllegalArgumentException wrong when wrong.getMessage() != null -> wrong.getMessage();
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
            default -> ExitCode.FAILED;
        };
    }

    /** {@code text} without line breaks: a refusal is one line, so that logs and scripts can hold it. */
    static String oneLine(String text) {
        return text.strip().replaceAll("\\s*\\R\\s*", " | ");
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
                "",
                "Exit codes: 0 done, 1 other failure, 2 usage, 3 bad input data, 4 rendezvous, 5 a rank failed,",
                "6 hang or deadline, 7 ranks disagree, 8 missing device or library, 130/143 interrupted/terminated.",
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
