package dev.kcp.launcher;

import dev.kcp.comm.CallMerge;
import dev.kcp.comm.CallProgress;
import dev.kcp.comm.CallRecorder;
import dev.kcp.comm.Communicator;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** Where ranks write their latest collective calls when their group fails or they are told to end. */
final class CallLog {
    /** Names a folder that is there, made by the launcher; absent: nothing is written. */
    static final String VARIABLE = "KCP_CALLS_DIR";

    private CallLog() {}

    /** The file of a rank, for {@link dev.kcp.comm.CallMerge}. */
    static Path file(Path folder, int rank) {
        return CallRecorder.file(folder, rank);
    }

    static void watch(Map<String, String> environment, Communicator communicator) {
        String folder = environment.get(VARIABLE);
        if (folder != null && !folder.isBlank()) {
            CallRecorder recorder = communicator.recorder();
            Path file = file(Path.of(folder), communicator.rank());
            recorder.keepIn(Path.of(folder));
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

    /** Who is behind and where ranks differ, in lines; empty where ranks wrote nothing, or not in kcp's own form. */
    static List<String> compare(Path folder, int ranks) {
        List<String> lines = new ArrayList<>(merge(folder));
        for (int rank = 0; rank < ranks; rank++) {
            if (!Files.exists(file(folder, rank))) {
                String who = "rank " + rank;
                CallProgress.read(CallRecorder.progressFile(folder, rank))
                        .filter(state -> state.begun() > 0)
                        .ifPresent(state -> lines.add(
                                who + " was last " + (state.isInside() ? "inside " : "done with ") + state.last()));
            }
        }
        return lines;
    }

    private static List<String> merge(Path folder) {
        try (Stream<Path> all = Files.list(folder)) {
            List<Path> files = all.filter(file -> file.getFileName().toString().matches("rank\\d+\\.jsonl"))
                    .sorted()
                    .toList();
            return files.isEmpty() ? List.of() : CallMerge.report(files).lines().toList();
        } catch (IOException | RuntimeException unreadable) {
            System.getLogger(CallLog.class.getName())
                    .log(System.Logger.Level.DEBUG, "calls cannot be compared: folder=" + folder, unreadable);
            return List.of();
        }
    }
}
