package dev.kcp.train;

import java.util.Objects;
import java.util.function.Consumer;

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

    /** Tells where documents are learnt from too: their loss says little of other text. */
    public void tellLearnt(TextCorpus learnt, Consumer<String> notes) {
        int shared = learnt.shared(corpus);
        if (shared > 0) {
            notes.accept("held-out text holds documents that are also learnt from: count=" + shared + " of="
                    + corpus.documents());
        }
    }

    boolean isDue(int step, int lastStep) {
        return step == lastStep || step % every == 0;
    }
}
