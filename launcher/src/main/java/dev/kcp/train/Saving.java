package dev.kcp.train;

import java.nio.file.Path;
import java.util.Objects;
import java.util.SortedMap;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;

/**
 * How a run saves what it has learnt, and whether it goes on with what it finds.
 *
 * @param folder of the saved states, on the machine of rank 0; made where it is missing
 * @param every steps between saves; the last step is saved too
 * @param keep newest states that stay in the folder
 * @param resume whether the run goes on from the newest state in the folder; where there is none it starts anew. Without,
 *     a folder that holds states is refused
 * @param newSchedule whether the state may be one of a run of other steps, learning rate, weight decay or gradient limit; this
 *     run's are used from there on
 * @param stopAsked whether the run is to save and end after the step at hand; asked on every rank
 * @param notes takes what a user should know, one line at a time
 */
public record Saving(
        Path folder,
        int every,
        int keep,
        boolean resume,
        boolean newSchedule,
        BooleanSupplier stopAsked,
        Consumer<String> notes) {
    /** @throws IllegalArgumentException if the folder's path is empty, every or keep is below 1, or a new schedule is for a run that begins */
    public Saving {
        Objects.requireNonNull(folder, "folder");
        Objects.requireNonNull(stopAsked, "stopAsked");
        Objects.requireNonNull(notes, "notes");
        if (folder.toString().isEmpty()) {
            throw new IllegalArgumentException("the folder has an empty path: save=");
        }
        if (every < 1 || keep < 1) {
            throw new IllegalArgumentException(
                    "saves are at least 1 step apart, and at least 1 is kept: every=" + every + " keep=" + keep);
        }
        if (newSchedule && !resume) {
            throw new IllegalArgumentException(
                    "a new schedule is for a run that goes on: newSchedule=true resume=false");
        }
    }

    /**
     * Looks for what would make {@link TrainLoop} refuse the folder, before any rank has started; changes nothing.
     *
     * @throws IllegalArgumentException if the folder holds states and is not to be gone on with, or they belong to another
     *     run
     * @throws dev.kcp.KcpException with {@code BAD_DATA} if none of its states can be read
     */
    public void check(TrainConfig config, TextCorpus corpus) {
        StateFolder states = new StateFolder(folder);
        states.checkUse(resume);
        if (resume) {
            try (StateBuffers buffers = new StateBuffers(new ParameterTable(config.shape()))) {
                states.newest(sought(config, corpus), buffers, note -> {});
            }
        }
    }

    /** What a state must be of, by name. */
    SortedMap<String, String> sought(TrainConfig config, TextCorpus corpus) {
        SortedMap<String, String> identity = RunIdentity.of(config, corpus);
        return newSchedule ? RunIdentity.withoutSchedule(identity) : identity;
    }
}
