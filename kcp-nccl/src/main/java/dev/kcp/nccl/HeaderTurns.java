package dev.kcp.nccl;

import java.util.BitSet;

/**
 * Which messages of each edge take a header along: every eighth, and the first in a captured graph. Both ends of an edge
 * count its messages, so they agree. A header costs about 3 us of an exchange's 9; what it finds, a lost or doubled message,
 * the next one finds too.
 */
final class HeaderTurns {
    static final int MESSAGES_PER_HEADER = 8;

    private final int[] messages;
    private final BitSet inGraph = new BitSet();
    private boolean capturing;

    /** @param peers ranks of the group */
    HeaderTurns(int peers) {
        messages = new int[peers];
    }

    /** From here on, until the other call, messages are captured. */
    void beginCapture() {
        capturing = true;
        inGraph.clear();
    }

    void endCapture() {
        capturing = false;
    }

    /** Counts a message of each of some edges; gives the edges on which it takes a header along. */
    BitSet next(BitSet peers) {
        BitSet headed = new BitSet();
        for (int peer = peers.nextSetBit(0); peer >= 0; peer = peers.nextSetBit(peer + 1)) {
            boolean turn = messages[peer]++ % MESSAGES_PER_HEADER == 0;
            if (turn || capturing && !inGraph.get(peer)) {
                headed.set(peer);
                inGraph.set(peer);
            }
        }
        return headed;
    }
}
