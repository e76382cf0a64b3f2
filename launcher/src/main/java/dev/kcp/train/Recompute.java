package dev.kcp.train;

/** What a layer's backward does for the activations of its forward. */
enum Recompute {
    /** They are kept. */
    NONE,
    /** They are computed again, and halo rows exchanged again. */
    EXCHANGING,
    /** They are computed again from the halo rows that a handle kept. */
    WITH_HANDLE;

    static Recompute of(TrainConfig config) {
        if (!config.checkpoint()) {
            return NONE;
        }
        return config.handles() ? WITH_HANDLE : EXCHANGING;
    }
}
