package dev.kcp.nccl;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.Segment;
import dev.kcp.cuda.CudaStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.stream.IntStream;

/**
 * The way of rows between GPUs that reach one another's memory. What it does not take goes through NCCL: both ends of an
 * edge decide alike, since they decide by what both know.
 */
final class DirectRoute implements AutoCloseable {
    private static final Path BOOT = Path.of("/proc/sys/kernel/random/boot_id");
    private static final int NOT_REACHED = -1;

    /** What goes each way. */
    record Parts(List<Segment> direct, List<Segment> collective) {
        boolean isEmpty() {
            return direct.isEmpty() && collective.isEmpty();
        }
    }

    /** Null where no peer is reached. */
    private final PeerMail mail;
    /** Each rank's number among the mailboxes, or {@link #NOT_REACHED}. */
    private final int[] boxes;

    private DirectRoute(PeerMail mail, int[] boxes) {
        this.mail = mail;
        this.boxes = boxes;
    }

    /** One that takes nothing. */
    static DirectRoute none(int ranks) {
        int[] boxes = new int[ranks];
        Arrays.fill(boxes, NOT_REACHED);
        return new DirectRoute(null, boxes);
    }

    /**
     * Finds out who reaches whom. A collective call.
     *
     * @param transfers the stream of all exchanges; borrowed
     */
    static DirectRoute open(Communicator control, CudaStream transfers) {
        int me = control.rank();
        List<byte[]> hosts = control.allGather("direct hosts", host().getBytes(StandardCharsets.US_ASCII));
        int[] neighbours = IntStream.range(0, control.size())
                .filter(rank -> rank != me && Arrays.equals(hosts.get(rank), hosts.get(me)))
                .toArray();
        PeerMail mail = neighbours.length == 0 ? null : new PeerMail(transfers, neighbours.length);
        try {
            List<byte[]> cards = control.allGather("direct cards", mail == null ? new byte[0] : mail.card());
            BitSet reached = new BitSet();
            for (int box = 0; box < neighbours.length; box++) {
                int rank = neighbours[box];
                // The peer numbers the ranks of this host in the same order, without itself.
                if (mail.reach(
                        box, cards.get(rank), me < rank ? indexOf(me, neighbours) : indexOf(me, neighbours) - 1)) {
                    reached.set(rank);
                }
            }
            List<byte[]> all = control.allGather("direct reach", reached.toByteArray());
            DirectRoute none = none(control.size());
            boolean any = false;
            for (int box = 0; box < neighbours.length; box++) {
                int rank = neighbours[box];
                if (reached.get(rank) && BitSet.valueOf(all.get(rank)).get(me)) {
                    none.boxes[rank] = box;
                    any = true;
                }
            }
            if (any) {
                return new DirectRoute(mail, none.boxes);
            }
            if (mail != null) {
                mail.close(true);
            }
            return none;
        } catch (RuntimeException | Error e) {
            if (mail != null) {
                mail.close(false);
            }
            throw e;
        }
    }

    /** How many of the ranks that are neighbours of one another come before this one. */
    private static int indexOf(int me, int[] neighbours) {
        return (int) Arrays.stream(neighbours).filter(rank -> rank < me).count();
    }

    private static String host() {
        try {
            return Files.readString(BOOT).strip();
        } catch (IOException _) {
            return UUID.randomUUID().toString();
        }
    }

    boolean reaches(int rank) {
        return boxes[rank] != NOT_REACHED;
    }

    /** Parts what is sent, or what is received: all segments of an edge go the same way. */
    Parts part(List<Segment> segments) {
        long[] lanes = new long[boxes.length];
        for (Segment segment : segments) {
            lanes[segment.peer()] += PeerMail.lanes(segment.bytes());
        }
        List<Segment> taken = new ArrayList<>(segments.size());
        List<Segment> left = new ArrayList<>();
        for (Segment segment : segments) {
            if (segment.bytes() > 0) {
                int peer = segment.peer();
                (reaches(peer) && lanes[peer] <= PeerMail.LANES ? taken : left).add(segment);
            }
        }
        return new Parts(taken, left);
    }

    /** Queues messages that {@link #part} gave it. */
    void exchange(List<Segment> sends, List<Segment> receives, long digest) {
        if (!sends.isEmpty() || !receives.isEmpty()) {
            mail.exchange(parcels(sends), parcels(receives), digest);
        }
    }

    private List<PeerMail.Parcel> parcels(List<Segment> segments) {
        List<PeerMail.Parcel> parcels = new ArrayList<>(segments.size());
        for (Segment segment : segments) {
            parcels.add(new PeerMail.Parcel(boxes[segment.peer()], segment.address(), segment.bytes()));
        }
        return parcels;
    }

    /** Sends and receives a few bytes with every rank that it reaches, so that no later call is the first. */
    void connect(long sent, long received, long bytes) {
        List<Segment> sends = new ArrayList<>();
        List<Segment> receives = new ArrayList<>();
        for (int rank = 0; rank < boxes.length; rank++) {
            if (reaches(rank)) {
                sends.add(new Segment(rank, sent + rank * bytes, bytes));
                receives.add(new Segment(rank, received + rank * bytes, bytes));
            }
        }
        exchange(sends, receives, 0);
    }

    /** What the first wrong message said. */
    Optional<String> wrong() {
        return mail == null ? Optional.empty() : mail.wrong(box -> "rank " + rankOf(box) + " of the group");
    }

    private int rankOf(int box) {
        return IntStream.range(0, boxes.length)
                .filter(rank -> boxes[rank] == box)
                .findFirst()
                .orElse(NOT_REACHED);
    }

    /** Ends every wait on the device. */
    void stop() {
        if (mail != null) {
            mail.stop();
        }
    }

    /** @param othersAreDone whether no rank sends any more */
    void close(boolean othersAreDone) {
        if (mail != null) {
            mail.close(othersAreDone);
        }
    }

    @Override
    public void close() {
        close(false);
    }
}
