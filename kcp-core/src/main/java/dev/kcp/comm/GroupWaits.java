package dev.kcp.comm;

import dev.kcp.KcpException.Code;
import java.util.Collection;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** What a rank of one group waits for, and what it says if that does not come. */
final class GroupWaits {
    /** Lets a statement that another thread is about to make, or that is on its way, come first. */
    private static final long CALL_INSTEAD_NANOS = TimeUnit.SECONDS.toNanos(1);

    private static final long LOOK_AGAIN_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    private final Mesh mesh;
    private final GroupState state;

    GroupWaits(Mesh mesh, GroupState state) {
        this.mesh = mesh;
        this.state = state;
    }

    Mesh mesh() {
        return mesh;
    }

    GroupState state() {
        return state;
    }

    /** Keeps this rank from running far ahead of one that has stopped, whose memory and error would both be late. */
    void peersNear(long number, Call call) {
        if (mesh.locked(() -> state.tooFarBehind(number)).isEmpty()) {
            return;
        }
        mesh.awaitRecords(
                () -> state.tooFarBehind(number).isEmpty(),
                () -> leftEarly(state.tooFarBehind(number), number, call),
                Deadline.in(mesh.deadline()),
                () -> overdue(number, call, state.tooFarBehind(number)));
    }

    /**
     * Waits until all have made a statement, and compares.
     *
     * @param beforeNextCall whether this rank makes no call until then, so that who waits for one waits in vain
     */
    void agreement(long number, String what, boolean beforeNextCall) {
        String name = what + " " + number + " of group " + state.name();
        CallInstead callInstead = new CallInstead(number, name, beforeNextCall);
        mesh.recorder()
                .waitsFor(name, () -> name + ", not stated by ranks " + mesh.locked(() -> state.silentOn(number)));
        mesh.await(
                () -> state.silentOn(number).isEmpty(),
                () -> {
                    for (int world : state.silentOn(number)) {
                        if (state.hasLeft(world)) {
                            return new Failure(
                                    Code.RANK_FAILED, world, -1, "rank " + world + " left before it knew " + name);
                        }
                    }
                    return callInstead.lasting();
                },
                Deadline.in(mesh.deadline()),
                () -> callInstead
                        .now()
                        .orElseGet(() -> new Failure(
                                Code.DEADLINE,
                                mesh.rank(),
                                -1,
                                "rank " + mesh.rank() + " waited too long for others to say what " + name
                                        + " is: silentRanks=" + state.silentOn(number) + " deadlineMillis="
                                        + mesh.deadline().toMillis())),
                LOOK_AGAIN_NANOS);
        mesh.recorder().waitOver();
        Failure failure = mesh.locked(() -> {
            Failure difference = state.differenceIn(number);
            state.statements().end(number);
            return difference;
        });
        if (failure != null) {
            throw mesh.failed(failure);
        }
    }

    /** Whether ranks make a call where this rank waits for a statement of theirs; with the mesh's lock. */
    private final class CallInstead {
        private final long number;
        private final String what;
        private final boolean beforeNextCall;
        private long sinceNanos;
        private boolean seen;

        CallInstead(long number, String what, boolean beforeNextCall) {
            this.number = number;
            this.what = what;
            this.beforeNextCall = beforeNextCall;
        }

        Optional<Failure> now() {
            return beforeNextCall ? Optional.ofNullable(state.callInsteadOf(number, what)) : Optional.empty();
        }

        /** The same once it has lasted; null until then. */
        Failure lasting() {
            Optional<Failure> found = now();
            if (found.isEmpty() || !seen) {
                sinceNanos = System.nanoTime();
                seen = found.isPresent();
            }
            return seen && System.nanoTime() - sinceNanos >= CALL_INSTEAD_NANOS ? found.orElse(null) : null;
        }
    }

    Failure leftEarly(Collection<Integer> needed, long number, Call call) {
        for (int world : needed) {
            if (state.leftBefore(world, number)) {
                return new Failure(
                        Code.RANK_FAILED,
                        world,
                        number,
                        "rank " + world + " left the group before call " + number + " " + call + ": group="
                                + state.name());
            }
        }
        return null;
    }

    Failure overdue(long number, Call call, Collection<Integer> awaited) {
        return new Failure(
                Code.DEADLINE,
                mesh.rank(),
                number,
                "rank " + mesh.rank() + " waited too long in call " + number + " " + call + "; "
                        + state.furthestBehind()
                        + ": awaitedRanks=" + awaited + " deadlineMillis="
                        + mesh.deadline().toMillis() + " group=" + state.name());
    }
}
