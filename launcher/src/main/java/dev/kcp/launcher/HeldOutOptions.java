package dev.kcp.launcher;

import dev.kcp.train.HeldOutText;
import dev.kcp.train.TextCorpus;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import picocli.CommandLine.Option;

/** The options of {@code kcp train} that look at text that is not learnt from. */
final class HeldOutOptions {
    private static final int EVERY_STEPS = 100;

    @Option(
            names = "--held-out",
            arity = "1..*",
            paramLabel = "PATH",
            description =
                    "Text files and folders, read as --data, that are not learnt from: tell the loss of the weights on "
                            + "all of them, too, as the run goes and at its end.")
    private List<Path> paths;

    @Option(
            names = "--held-out-every",
            paramLabel = "K",
            description = "Steps between looks at it (" + EVERY_STEPS + ").")
    private Integer every;

    /**
     * @param outputs what the run writes, by option
     * @param notes takes what a user should know, one line at a time
     * @throws IllegalArgumentException if the options contradict each other
     */
    Optional<HeldOutText> text(
            boolean allowBinary, TextCorpus.Documents separated, Map<String, Path> outputs, Consumer<String> notes) {
        if (paths == null) {
            if (every != null) {
                throw new IllegalArgumentException("--held-out-every needs --held-out PATH: held-out=none");
            }
            return Optional.empty();
        }
        int steps = every == null ? EVERY_STEPS : OptionRange.atLeast("--held-out-every", every, 1);
        return Optional.of(new HeldOutText(TextCorpus.read(paths, allowBinary, separated, outputs, notes), steps));
    }
}
