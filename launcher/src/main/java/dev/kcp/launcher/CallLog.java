package dev.kcp.launcher;

import dev.kcp.comm.CallRecorder;
import dev.kcp.comm.Communicator;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** Where ranks write their latest collective calls when their group fails or they are told to end. */
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
            CallRecorder recorder = communicator.recorder();
            Path file = file(Path.of(folder), communicator.rank());
            recorder.writeOnFailure(file);
            // Told to end with the group still open: a rank that hangs, or that others wait for.
            Runtime.getRuntime()
                    .addShutdownHook(new Thread(
                            () -> {
                                if (recorder.isOpen() && !Files.exists(file)) {
                                    recorder.write(file);
                                }
                            },
                            "kcp-last-calls"));
        }
    }
}
