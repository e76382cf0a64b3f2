package dev.kcp.launcher;

import java.util.concurrent.Callable;
import picocli.AutoComplete;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** {@code kcp completion}: the shell's completion script. */
@Command(
        name = "completion",
        mixinStandardHelpOptions = true,
        versionProvider = Version.class,
        description = "Prints a completion script for bash and zsh.",
        footerHeading = "%nExample:%n",
        footer = "  source <(kcp completion)")
final class CompletionCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Override
    public Integer call() {
        CommandLine root = spec.root().commandLine();
        spec.commandLine().getOut().println(AutoComplete.bash("kcp", root));
        spec.commandLine().getOut().flush();
        return ExitCode.DONE;
    }
}
