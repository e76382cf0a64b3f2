package dev.kcp.comm;

import java.util.function.BooleanSupplier;

/** What this rank states to its group, and its waits for the others to state the same. Any thread may state something. */
final class OwnStatements {
    private final Mesh mesh;
    private final GroupState state;
    private final int[] worldRanks;
    private final GroupWaits waits;
    private final BooleanSupplier makesTheCalls;
    private final Object order = new Object();

    /** @param makesTheCalls whether the asking thread is the one that makes this rank's calls, as far as is known */
    OwnStatements(Mesh mesh, GroupState state, int[] worldRanks, GroupWaits waits, BooleanSupplier makesTheCalls) {
        this.mesh = mesh;
        this.state = state;
        this.worldRanks = worldRanks;
        this.waits = waits;
        this.makesTheCalls = makesTheCalls;
    }

    /** Tells the group, and compares at once where all others have spoken. */
    PendingAgreement state(String what, String statement) {
        // Numbers go out in order, whichever threads make statements.
        synchronized (order) {
            long number = mesh.locked(() -> state.statements().make(mesh.rank(), what, statement));
            Frame frame = new Frame.Statement(state.name(), number, statement);
            for (int world : worldRanks) {
                if (world != mesh.rank()) {
                    mesh.wire().send(world, frame);
                }
            }
            Failure failure = mesh.locked(() -> state.differenceIn(number));
            if (failure != null) {
                mesh.fail(failure);
            }
            return new Agreement(number, what);
        }
    }

    /** Waits at most once. */
    private final class Agreement implements PendingAgreement {
        private final long number;
        private final String what;
        private boolean reached;

        Agreement(long number, String what) {
            this.number = number;
            this.what = what;
        }

        @Override
        public synchronized void await() {
            if (!reached) {
                mesh.checkAlive();
                waits.agreement(number, what, makesTheCalls.getAsBoolean());
                reached = true;
            }
        }
    }
}
