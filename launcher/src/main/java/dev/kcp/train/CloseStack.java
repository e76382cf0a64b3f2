package dev.kcp.train;

import dev.kcp.Words;
import java.util.ArrayDeque;
import java.util.Deque;

/** Owners that are closed together, the newest first; the first failure is thrown, later ones are suppressed in it. */
final class CloseStack implements AutoCloseable {
    private final Deque<AutoCloseable> owners = new ArrayDeque<>();

    <T extends AutoCloseable> T push(T owner) {
        owners.push(owner);
        return owner;
    }

    @Override
    public void close() {
        RuntimeException first = null;
        while (!owners.isEmpty()) {
            try {
                owners.pop().close();
            } catch (Exception failure) {
                RuntimeException wrapped = failure instanceof RuntimeException runtime
                        ? runtime
                        : new IllegalStateException("close failed: cause=" + Words.of(failure), failure);
                if (first == null) {
                    first = wrapped;
                } else {
                    first.addSuppressed(wrapped);
                }
            }
        }
        if (first != null) {
            throw first;
        }
    }
}
