package dev.kcp.train;

import java.util.Objects;

/**
 * Text that a run does not learn from and whose loss it tells as it goes.
 *
 * @param corpus with a document at least
 * @param every steps between looks at it; there is one after the last step too
 */
public record HeldOutText(TextCorpus corpus, int every) {
    public HeldOutText {
        Objects.requireNonNull(corpus, "corpus");
        if (corpus.documents() == 0 || every < 1) {
            throw new IllegalArgumentException(
                    "held-out text has a document, and looks at it are at least 1 step apart:" + " documents="
                            + corpus.documents() + " every=" + every);
        }
    }

    boolean isDue(int step, int lastStep) {
        return step == lastStep || step % every == 0;
    }
}
