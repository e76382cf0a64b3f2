package dev.kcp.comm;

import dev.kcp.KcpException.Code;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * What one rank knows of one group: its own latest records, and what each peer has sent. It may exist before the group
 * does on this rank, since peers may be ahead. Guarded by the mesh's lock.
 */
final class GroupState {
    /**
     * How many calls a rank may be ahead of the slowest peer. Bounds what is held for a slow rank, and makes sure that
     * a peer's record meets the own one while that is still kept.
     */
    static final int MAX_CALLS_AHEAD = 32;

    private static final int RING = 1024;

    private final String name;
    private final int worldRank;
    private final Map<Integer, Peer> peers = new HashMap<>();
    private final Call[] ownRecords = new Call[RING];
    private final Statements statements = new Statements();
    private int[] members;
    private long callsMade;
    private Step current;
    private boolean closed;

    /** One peer, by its world rank. */
    private static final class Peer {
        private final ArrayDeque<Message> held = new ArrayDeque<>();
        private Message filling;
        private long lastCall = -1;
        private Call lastRecord;
        private boolean left;
    }

    GroupState(String name, int worldRank) {
        this.name = name;
        this.worldRank = worldRank;
    }

    String name() {
        return name;
    }

    /** Makes the group known on this rank. */
    void register(int[] worldRanks) {
        members = worldRanks.clone();
    }

    Statements statements() {
        return statements;
    }

    /** Ranks that have not made a statement, and those of them that never will. */
    List<Integer> silentOn(long statement) {
        return statements.missing(statement, members);
    }

    /** What is wrong with a statement, as soon as this rank knows everyone's; null until then. */
    Failure differenceIn(long statement) {
        boolean isKnown = members != null
                && statements.isMade(statement)
                && silentOn(statement).isEmpty();
        return isKnown ? statements.compare(statement, name) : null;
    }

    /**
     * Ranks that made a call which this rank has not made, without the statement that this rank waits for before it: nobody
     * will end either wait. Null where there are none.
     *
     * @param what name of the statement
     */
    Failure callInsteadOf(long statement, String what) {
        List<String> sides = new ArrayList<>();
        List<Integer> silent = silentOn(statement);
        int origin = worldRank;
        for (int world : silent) {
            for (Message message : peer(world).held) {
                Frame.Header header = message.header();
                if (header.call() == callsMade && header.phase() == 0) {
                    sides.add("rank " + world + " makes " + header.record());
                    origin = Math.min(origin, world);
                }
            }
        }
        if (sides.isEmpty()) {
            return null;
        }
        return new Failure(
                Code.DISAGREEMENT,
                origin,
                callsMade,
                "ranks disagree on call " + callsMade + " of group " + name + ": " + String.join("; ", sides)
                        + "; rank " + worldRank + " first waits for " + what + ", of which ranks " + silent
                        + " said nothing");
    }

    boolean hasLeft(int world) {
        return peer(world).left;
    }

    long callsMade() {
        return callsMade;
    }

    private Peer peer(int world) {
        return peers.computeIfAbsent(world, _ -> new Peer());
    }

    /** Takes a peer's record of a call; returns what is wrong with it, or null. */
    Failure header(int world, Frame.Header header) {
        Peer peer = peer(world);
        peer.lastCall = header.call();
        peer.lastRecord = header.record();
        Message message = new Message(header);
        peer.filling = message;
        if (closed) {
            return null;
        }
        if (members == null || header.call() >= callsMade) {
            peer.held.add(message);
            return null;
        }
        return admit(world, peer, message);
    }

    void payload(int world, MemorySegment run) {
        Peer peer = peer(world);
        if (peer.filling == null) {
            throw new IllegalStateException("payload without a header: group=" + name + " rank=" + world);
        }
        if (!closed) {
            peer.filling.accept(run);
        }
    }

    /** A message whose call this rank has made: to its place, to wait for its phase, or away. */
    private Failure admit(int world, Peer peer, Message message) {
        Frame.Header header = message.header();
        Call own = ownRecords[(int) (header.call() % RING)];
        if (!own.equals(header.record())) {
            return disagreement(world, header.call(), "rank %d expected " + own, "rank %d expected " + header.record());
        }
        int order = current == null ? -1 : current.compareTo(header);
        if (order > 0) {
            peer.held.add(message);
            return null;
        }
        Sink sink = order == 0 ? current.sink(indexOf(world)) : null;
        if (sink == null ? header.bytes() != 0 : !sink.accepts(header.bytes())) {
            return disagreement(
                    world,
                    header.call(),
                    "rank %d expected " + (sink == null ? 0 : sink.expectedBytes()) + " bytes from rank " + world
                            + " in " + own,
                    "rank %d sends rank " + worldRank + " " + header.bytes() + " bytes");
        }
        if (sink != null) {
            message.attach(current, sink);
        }
        return null;
    }

    /** Both ends word it alike, the lower rank first. */
    private Failure disagreement(int world, long call, String own, String theirs) {
        String mine = own.formatted(worldRank);
        String other = theirs.formatted(world);
        String both = worldRank < world ? mine + "; " + other : other + "; " + mine;
        return new Failure(
                Code.DISAGREEMENT,
                Math.min(world, worldRank),
                call,
                "ranks disagree on call " + call + " of group " + name + ": " + both);
    }

    /** Begins a step of this rank: a new call for phase 0. Returns what is wrong with records that came early. */
    Failure begin(Step step) {
        if (step.phase() == 0) {
            ownRecords[(int) (callsMade % RING)] = step.record();
            callsMade++;
        }
        current = step;
        for (int world : members) {
            Peer peer = peer(world);
            while (!peer.held.isEmpty() && step.compareTo(peer.held.peek().header()) <= 0) {
                Failure failure = admit(world, peer, peer.held.remove());
                if (failure != null) {
                    return failure;
                }
            }
        }
        return null;
    }

    /** Ends the step under way; late records of it are still compared. */
    void end(boolean lastPhase) {
        if (current != null) {
            current.close();
            if (lastPhase) {
                current = null;
            }
        }
    }

    /** Ranks that are too far behind for call n to begin. */
    List<Integer> tooFarBehind(long call) {
        return notAt(call - MAX_CALLS_AHEAD);
    }

    /** Ranks that have not made this rank's latest call. */
    List<Integer> behind() {
        return notAt(callsMade - 1);
    }

    private List<Integer> notAt(long call) {
        List<Integer> behind = new ArrayList<>();
        for (int world : members) {
            if (world != worldRank && peer(world).lastCall < call) {
                behind.add(world);
            }
        }
        return behind;
    }

    /** Ranks whose payload the current step still misses. */
    List<Integer> awaited() {
        List<Integer> awaited = new ArrayList<>();
        for (int i = 0; i < members.length && current != null; i++) {
            if (current.sink(i) != null && !current.sink(i).isComplete()) {
                awaited.add(members[i]);
            }
        }
        return awaited;
    }

    boolean isStepComplete() {
        return current != null && current.isComplete();
    }

    void left(int world) {
        peer(world).left = true;
    }

    /** Whether a peer left without making the call. */
    boolean leftBefore(int world, long call) {
        Peer peer = peer(world);
        return peer.left && peer.lastCall < call;
    }

    /** The rank that made the fewest calls, and its last: the likely culprit of a wait without end. */
    String furthestBehind() {
        int slowest = -1;
        for (int world : members) {
            if (world != worldRank && (slowest < 0 || peer(world).lastCall < peer(slowest).lastCall)) {
                slowest = world;
            }
        }
        if (slowest < 0) {
            return "";
        }
        Peer peer = peer(slowest);
        return "furthest behind is rank " + slowest + ", "
                + (peer.lastRecord == null
                        ? "which made no call yet"
                        : "whose last call was " + peer.lastCall + " " + peer.lastRecord);
    }

    /** Forgets all messages: the group is closed here, or has failed. */
    void close() {
        closed = true;
        end(true);
        for (Peer peer : peers.values()) {
            peer.held.clear();
        }
    }

    /** Whether nothing more can come for this closed group. */
    boolean isOver() {
        if (!closed) {
            return false;
        }
        for (int world : members) {
            if (world != worldRank && !peer(world).left) {
                return false;
            }
        }
        return true;
    }

    private int indexOf(int world) {
        for (int i = 0; i < members.length; i++) {
            if (members[i] == world) {
                return i;
            }
        }
        throw new IllegalStateException("not of the group: rank=" + world + " group=" + name);
    }
}
