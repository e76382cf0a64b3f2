package dev.kcp.multirank;

import java.nio.file.Path;

/**
 * A small {@code kcp train} that saves its states in a folder and goes on from what it finds there, started again and again
 * by the same words on any number of ranks.
 *
 * @param tokens of a batch
 * @param every steps between states
 */
record SavingRun(Path text, Path states, int tokens, int steps, int every) {
    KcpProcess start(int world) {
        return KcpProcess.start(
                "train",
                "--data",
                text.toString(),
                "--world",
                Integer.toString(world),
                "--layers",
                "1",
                "--channels",
                "16",
                "--tokens",
                Integer.toString(tokens),
                "--steps",
                Integer.toString(steps),
                "--save",
                states.toString(),
                "--every",
                Integer.toString(every),
                "--resume",
                "--loss-log",
                lossLog().toString());
    }

    /** Beside the folder of states. */
    Path lossLog() {
        return states.resolveSibling(states.getFileName() + ".jsonl");
    }
}
