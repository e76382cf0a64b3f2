package dev.kcp.comm;

import dev.kcp.KcpException.Code;
import java.util.Collection;

/** What a rank of one group waits for, and what it says if that does not come. */
final class GroupWaits {
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

    /** Waits until all have made a statement, and compares. */
    void agreement(long number, String what) {
        String name = what + " " + number + " of group " + state.name();
        mesh.await(
                () -> state.silentOn(number).isEmpty(),
                () -> {
                    for (int world : state.silentOn(number)) {
                        if (state.hasLeft(world)) {
                            return new Failure(
                                    Code.RANK_FAILED, world, -1, "rank " + world + " left before it knew " + name);
                        }
                    }
                    return null;
                },
                Deadline.in(mesh.deadline()),
                () -> new Failure(
                        Code.DEADLINE,
                        mesh.rank(),
                        -1,
                        "rank " + mesh.rank() + " waited too long for others to say what " + name
                                + " is: silentRanks=" + state.silentOn(number) + " deadlineMillis="
                                + mesh.deadline().toMillis()));
        Failure failure = mesh.locked(() -> state.statements().compare(number, state.name(), what));
        if (failure != null) {
            throw mesh.failed(failure);
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
