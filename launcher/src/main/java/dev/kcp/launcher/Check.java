package dev.kcp.launcher;

import java.util.List;

/**
 * One thing that {@code kcp doctor} looked at.
 *
 * @param name short, as in the table
 * @param state what was found
 * @param detail what it is and where, or what is missing and what to do
 * @param needs what cannot work where this is missing
 */
record Check(String name, State state, String detail, List<Need> needs) {
    /** What was found. */
    enum State {
        OK,
        /** There, but may not be enough. */
        NOTE,
        MISSING
    }

    /** What a user may want to do; each needs all that the ones before it need. */
    enum Need {
        CPU,
        CUDA,
        NCCL
    }

    Check {
        needs = List.copyOf(needs);
    }

    boolean blocks(Need need) {
        return state == State.MISSING && needs.stream().anyMatch(mine -> mine.compareTo(need) <= 0);
    }
}
