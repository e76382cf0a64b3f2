package dev.kcp.nccl;

import dev.kcp.comm.Call;
import dev.kcp.comm.Segment;
import dev.kcp.cuda.CudaStream;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Optional;

/** Puts a header before some of the rows that travel, when it is their edge's turn, and has the device compare them. */
final class HeaderedMessages implements AutoCloseable {
    /** Messages of one exchange; the peers whose messages have a header come first. */
    record Messages(List<Segment> sends, List<Segment> receives, BitSet headedTo, BitSet headedFrom) {
        boolean isEmpty() {
            return sends.isEmpty() && receives.isEmpty();
        }
    }

    private final int rank;
    private final int size;
    private final MessageHeaders headers;
    private final HeaderTurns turnsTo;
    private final HeaderTurns turnsFrom;

    HeaderedMessages(CudaStream stream, int rank, int size) {
        this.rank = rank;
        this.size = size;
        headers = new MessageHeaders(stream, size);
        turnsTo = new HeaderTurns(size);
        turnsFrom = new HeaderTurns(size);
    }

    /** The headers themselves, where they are on the device. */
    MessageHeaders headers() {
        return headers;
    }

    /**
     * Peers of non-empty messages.
     *
     * @throws IllegalArgumentException if one is this rank, or none of the group
     */
    BitSet peers(List<Segment> segments) {
        BitSet peers = new BitSet();
        for (Segment segment : segments) {
            segment.checkPeer(rank, size);
            if (segment.bytes() > 0) {
                peers.set(segment.peer());
            }
        }
        return peers;
    }

    /** Counts one message of each edge, and adds headers. */
    Messages next(List<Segment> sends, List<Segment> receives) {
        BitSet headedTo = turnsTo.next(peers(sends));
        BitSet headedFrom = turnsFrom.next(peers(receives));
        return new Messages(with(headedTo, true, sends), with(headedFrom, false, receives), headedTo, headedFrom);
    }

    private List<Segment> with(BitSet headed, boolean outgoing, List<Segment> rows) {
        if (headed.isEmpty()) {
            return rows;
        }
        List<Segment> all = new ArrayList<>(rows.size() + headed.cardinality());
        for (int peer = headed.nextSetBit(0); peer >= 0; peer = headed.nextSetBit(peer + 1)) {
            long address = outgoing ? headers.outgoing(peer) : headers.incoming(peer);
            all.add(new Segment(peer, address, MessageHeaders.BYTES));
        }
        all.addAll(rows);
        return all;
    }

    /** Queues the comparison of the headers that came with the call. */
    void check(Messages messages, Call call) {
        if (!messages.headedTo().isEmpty() || !messages.headedFrom().isEmpty()) {
            headers.check(messages.headedTo(), messages.headedFrom(), CallDigest.of(call));
        }
    }

    /** What the first wrong header said, or nothing while all were right. */
    Optional<String> wrong() {
        return headers.wrong();
    }

    void beginCapture() {
        turnsTo.beginCapture();
        turnsFrom.beginCapture();
    }

    void endCapture() {
        turnsTo.endCapture();
        turnsFrom.endCapture();
    }

    @Override
    public void close() {
        headers.close();
    }
}
