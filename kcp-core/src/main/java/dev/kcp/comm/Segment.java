package dev.kcp.comm;

/**
 * Contiguous bytes that go to, or come from, one peer. Several segments of the same peer in one exchange travel in list
 * order, and both ends must list the same total.
 *
 * @param peer the other rank in the group; never the own rank
 * @param address first byte, in the memory of the communicator's device
 * @param bytes length; 0 is allowed and moves nothing
 */
public record Segment(int peer, long address, long bytes) {
    /** @throws IllegalArgumentException if the peer or the length is negative, or bytes have no address */
    public Segment {
        if (peer < 0) {
            throw new IllegalArgumentException("not a segment: peer=" + peer + " bytes=" + bytes);
        }
        checkMemory(address, bytes);
    }

    /**
     * Checks that an address and a length name memory: bytes lie behind an address, and do not go round its end.
     *
     * @throws IllegalArgumentException if they cannot
     */
    public static void checkMemory(long address, long bytes) {
        if (bytes < 0 || bytes > 0 && (address <= 0 || address + bytes < 0)) {
            throw new IllegalArgumentException("no such memory: address=" + address + " bytes=" + bytes);
        }
    }

    /**
     * Checks that a rank of a group can exchange it.
     *
     * @throws IllegalArgumentException if it names the rank itself or one outside the group
     */
    public void checkPeer(int rank, int size) {
        if (peer >= size || peer == rank) {
            throw new IllegalArgumentException(
                    "not a peer: peer=" + peer + " rank=" + rank + " size=" + size + " bytes=" + bytes);
        }
    }
}
