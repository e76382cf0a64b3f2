package dev.kcp.core;

import java.util.function.Supplier;

/**
 * What an autograd engine is doing on this thread: computing a region for the first time, or again because its activations
 * were dropped. {@link Checkpoint} sets it; another engine may set it too. It is never guessed from a handle's contents.
 */
public enum Phase {
    /** The first time: a handle is filled. */
    FORWARD,
    /** Again, after activations were dropped: a handle is read, and nothing is exchanged. */
    RECOMPUTE;

    private static final ScopedValue<Phase> CURRENT = ScopedValue.newInstance();

    /** The phase of the innermost scope on this thread; FORWARD outside of all. */
    public static Phase current() {
        return CURRENT.orElse(FORWARD);
    }

    /** Runs the body in this phase. */
    public <T> T call(Supplier<T> body) {
        return ScopedValue.where(CURRENT, this).call(body::get);
    }

    /** The task, to be run by another thread in the phase that this thread is in now. */
    public static Runnable carry(Runnable task) {
        Phase phase = current();
        return () -> ScopedValue.where(CURRENT, phase).run(task);
    }
}
