package dev.kcp.launcher;

import dev.kcp.comm.RankInfo;
import java.time.Duration;
import java.util.Optional;
import java.util.function.IntSupplier;
import picocli.CommandLine.Option;

/** How many ranks a command has and how long they wait for each other; for every command whose work ranks share. */
final class RankOptions {
    @Option(
            names = "--world",
            paramLabel = "N",
            description = "Ranks, started on this machine (default: WORLD_SIZE where this is a rank, else 1).")
    private Integer world;

    @Option(
            names = "--deadline",
            defaultValue = "60",
            paramLabel = "SECONDS",
            description = "Longest wait of one rank for another (${DEFAULT-VALUE}).")
    private int deadlineSeconds;

    /**
     * Ranks of the job.
     *
     * @param me this process as its launcher described it
     * @param otherwise how many where neither the option nor a launcher says so
     * @throws IllegalArgumentException if there are too few or too many, or the launcher says otherwise
     */
    int ranks(Optional<RankInfo> me, IntSupplier otherwise) {
        int ranks = checked(world != null ? world : me.map(RankInfo::worldSize).orElseGet(otherwise::getAsInt));
        if (me.isPresent() && me.get().worldSize() != ranks) {
            throw new IllegalArgumentException("--world contradicts the environment: world=" + ranks + " WORLD_SIZE="
                    + me.get().worldSize());
        }
        return ranks;
    }

    /** The number of ranks, if a job can have so many. */
    static int checked(int ranks) {
        return OptionRange.within("--world", ranks, 1, LaunchSpec.MAX_RANKS);
    }

    /** Longest wait of one rank for another. */
    Duration deadline() {
        return Duration.ofSeconds(OptionRange.atLeast("--deadline", deadlineSeconds, 1));
    }
}
