package dev.kcp.tensor;

import dev.kcp.Words;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;

/**
 * Owners that are closed together, the newest first. All are closed, whatever some of them throw: the first failure is
 * thrown, later ones are suppressed in it. A second close finds nothing left.
 */
public final class CloseStack implements AutoCloseable {
    private final Deque<AutoCloseable> owners = new ArrayDeque<>();

    /** Adds an owner and returns it; null is passed through and owns nothing. */
    public <T extends AutoCloseable> T push(T owner) {
        if (owner != null) {
            owners.push(owner);
        }
        return owner;
    }

    /** Closes everything because of a failure, in which what closing throws is suppressed. The caller throws the failure. */
    public void closeAfter(Throwable failure) {
        try {
            close();
        } catch (RuntimeException | Error e) {
            if (e != failure) {
                failure.addSuppressed(e);
            }
        }
    }

    /** Closes owners that are named in the order in which they were made; null owns nothing. */
    public static void closeAll(AutoCloseable... owners) {
        closeAll(Arrays.asList(owners));
    }

    /** Closes owners that are listed in the order in which they were made; null owns nothing. */
    public static void closeAll(Iterable<? extends AutoCloseable> owners) {
        try (CloseStack stack = new CloseStack()) {
            owners.forEach(stack::push);
        }
    }

    @Override
    public void close() {
        Throwable first = null;
        while (!owners.isEmpty()) {
            try {
                owners.pop().close();
            } catch (Throwable failure) {
                if (first == null) {
                    first = failure;
                } else if (first != failure) {
                    first.addSuppressed(failure);
                }
            }
        }
        switch (first) {
            case null -> {}
            case RuntimeException e -> throw e;
            case Error e -> throw e;
            default -> throw new IllegalStateException("close failed: cause=" + Words.of(first), first);
        }
    }
}
