package dev.kcp.train;

import dev.kcp.KcpException;
import dev.kcp.comm.Communicator;
import dev.kcp.tensor.CloseStack;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * A run's saved states as its ranks see them: rank 0 alone touches files, and hands what it reads to the others. All
 * methods but {@link #close} are collective.
 */
final class RunStore implements AutoCloseable {
    private static final int CHUNK_BYTES = 1 << 22;

    private final Saving saving;
    private final Map<String, String> identity;
    private final Map<String, String> sought;
    private final Communicator group;
    private final TrainStep train;
    private final StateFolder folder;
    private final StateBuffers buffers;

    /** Locks the folder. */
    RunStore(Saving saving, TrainConfig config, TextCorpus corpus, Communicator communicator, TrainStep train) {
        this.saving = saving;
        this.identity = RunIdentity.of(config, corpus);
        this.sought = saving.sought(config, corpus);
        this.group = communicator.host();
        this.train = train;
        this.buffers = new StateBuffers(new ParameterTable(config.shape()));
        this.folder = new StateFolder(saving.folder());
        if (isWriter()) {
            folder.checkUse(saving.resume());
            folder.lock();
        }
    }

    private boolean isWriter() {
        return group.rank() == 0;
    }

    /** Takes the newest whole state, if the run is to go on from one and there is one. */
    RunPosition restore() {
        if (!saving.resume()) {
            return RunPosition.START;
        }
        String mine = "";
        if (isWriter()) {
            Optional<StateFolder.Found> found = folder.newest(sought, buffers, saving.notes());
            mine = found.map(state -> text(state.position())).orElse("");
            saving.notes()
                    .accept(found.map(state -> "goes on from " + state.file() + ": step="
                                    + state.position().step())
                            .orElse("no saved state to go on from, starts anew: save=" + saving.folder()));
        }
        String shared = new String(
                group.allGather("saved position", mine.getBytes(StandardCharsets.US_ASCII))
                        .getFirst(),
                StandardCharsets.US_ASCII);
        if (shared.isEmpty()) {
            return RunPosition.START;
        }
        buffers.all().forEach(this::share);
        train.restore(buffers);
        return position(shared);
    }

    /** Copies rank 0's buffer to all. */
    private void share(ParameterBuffer buffer) {
        MemorySegment bytes = buffer.flat().segment();
        for (long at = 0; at < bytes.byteSize() && group.size() > 1; at += CHUNK_BYTES) {
            MemorySegment chunk = bytes.asSlice(at, Math.min(CHUNK_BYTES, bytes.byteSize() - at));
            byte[] mine = isWriter() ? chunk.toArray(ValueLayout.JAVA_BYTE) : new byte[0];
            byte[] first = group.allGather("saved state", mine).getFirst();
            if (!isWriter()) {
                chunk.copyFrom(MemorySegment.ofArray(first));
            }
        }
    }

    private static String text(RunPosition position) {
        return position.step() + " " + position.data().epoch() + " "
                + position.data().document() + " " + position.data().token() + " " + position.firstLoss() + " "
                + position.lastLoss();
    }

    private static RunPosition position(String text) {
        String[] numbers = text.split(" ");
        return new RunPosition(
                Integer.parseInt(numbers[0]),
                new DataPosition(
                        Long.parseLong(numbers[1]), Integer.parseInt(numbers[2]), Integer.parseInt(numbers[3])),
                Double.parseDouble(numbers[4]),
                Double.parseDouble(numbers[5]));
    }

    /** Whether a step is one after which a state is written. */
    boolean isDue(int step, int lastStep) {
        return step == lastStep || step % saving.every() == 0;
    }

    /**
     * Writes the state, on rank 0; the others need not wait.
     *
     * @throws KcpException with {@code RANK_FAILED} if it is not finite: who went on from it could not go far
     */
    void save(RunPosition position) {
        if (isWriter()) {
            train.copyTo(buffers);
            buffers.notFinite().ifPresent(where -> {
                throw new KcpException(
                        KcpException.Code.RANK_FAILED,
                        "training left the finite numbers, the state is not saved: step=" + position.step() + " "
                                + where);
            });
            folder.save(position, identity, buffers, saving.keep());
        }
    }

    /** Whether any rank was asked to end; every rank gets the same answer. */
    boolean isStopAsked() {
        byte[] mine = {(byte) (saving.stopAsked().getAsBoolean() ? 1 : 0)};
        List<byte[]> all = group.allGather("end asked for", mine);
        return all.stream().anyMatch(one -> one[0] != 0);
    }

    @Override
    public void close() {
        CloseStack.closeAll(buffers, folder);
    }
}
