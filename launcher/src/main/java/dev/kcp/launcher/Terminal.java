package dev.kcp.launcher;

import java.io.Console;
import java.util.Map;
import picocli.CommandLine.Help.Ansi;

/** What the terminal of this process can show, if it has one. */
final class Terminal {
    private Terminal() {}

    /** Whether a line may be written over, as a progress bar is: on a terminal that moves its cursor. */
    static boolean canRewrite(Map<String, String> environment) {
        Console console = System.console();
        return !isDumb(environment) && console != null && console.isTerminal();
    }

    /** How usage texts are set off: not at all where the terminal cannot or its user does not want it. */
    static Ansi style(Map<String, String> environment) {
        boolean isPlain =
                isDumb(environment) || !environment.getOrDefault("NO_COLOR", "").isEmpty();
        return isPlain ? Ansi.OFF : Ansi.AUTO;
    }

    private static boolean isDumb(Map<String, String> environment) {
        String kind = environment.getOrDefault("TERM", "");
        return kind.isEmpty() || kind.equals("dumb");
    }
}
