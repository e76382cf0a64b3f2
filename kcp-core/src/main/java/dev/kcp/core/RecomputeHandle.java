package dev.kcp.core;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Where one convolution call keeps what its recompute would otherwise have to exchange again. Any object with entries
 * serves; keys of others are left alone. One handle per convolution call and micro-step, made outside the outermost
 * checkpoint.
 */
public interface RecomputeHandle {
    /** The convolution's key; its value is the saved set's own pool of history rows, no copy. */
    String CONV = "conv";

    /** The entries, to be read and written by the calls that were given the handle. */
    Map<String, Object> entries();

    /** A handle with nothing stored. */
    static RecomputeHandle create() {
        Map<String, Object> entries = new ConcurrentHashMap<>();
        return () -> entries;
    }

    /** Bytes of the history rows that this handle keeps alive. */
    default long nbytes() {
        return entries().get(CONV) instanceof HistoryPool pool ? pool.nbytes() : 0;
    }

    /**
     * Lets go of the history rows; a later recompute with this handle is refused. Foreign entries stay. A refusal ends the
     * group of ranks, as every throw of a call does.
     *
     * @throws IllegalStateException while a region that was given the handle has yet to run its backward
     */
    default void clear() {
        if (entries().get(CONV) instanceof HistoryPool pool) {
            pool.checkNotPending();
            entries().put(CONV, Cleared.ENTRY);
            pool.release();
        }
    }

    /** Stands where an entry was cleared, so that a recompute can tell it from one that was never stored. */
    enum Cleared {
        /** The one mark. */
        ENTRY
    }
}
