package dev.kcp.launcher;

import dev.kcp.comm.Communicator;
import java.nio.file.Path;
import java.util.Map;

/** Where ranks write their latest collective calls when their group fails. */
final class CallLog {
    /** Names a folder that is there, made by the launcher; absent: nothing is written. */
    static final String VARIABLE = "KCP_CALLS_DIR";

    private CallLog() {}

    /** The file of a rank, for {@link dev.kcp.comm.CallMerge}. */
    static Path file(Path folder, int rank) {
        return folder.resolve("rank" + rank + ".jsonl");
    }

    static void watch(Map<String, String> environment, Communicator communicator) {
        String folder = environment.get(VARIABLE);
        if (folder != null && !folder.isBlank()) {
            communicator.recorder().writeOnFailure(file(Path.of(folder), communicator.rank()));
        }
    }
}
