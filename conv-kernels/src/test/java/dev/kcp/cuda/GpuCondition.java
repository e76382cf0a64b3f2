package dev.kcp.cuda;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.platform.commons.support.AnnotationSupport;

/** Whether the GPUs that a test needs are there, told by the driver's files alone: nothing is loaded to find out. */
final class GpuCondition implements ExecutionCondition {
    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        int needed = AnnotationSupport.isAnnotated(context.getElement(), NeedsTwoGpus.class) ? 2 : 1;
        int present = visible(System.getenv("CUDA_VISIBLE_DEVICES"), present());
        String counts = "needed=" + needed + " present=" + present;
        return present >= needed
                ? ConditionEvaluationResult.enabled("GPUs: " + counts)
                : ConditionEvaluationResult.disabled((present == 0 ? "no GPU: " : "too few GPUs: ") + counts);
    }

    /** @param names the value of CUDA_VISIBLE_DEVICES, or null where it is not set */
    static int visible(String names, int present) {
        if (names == null) {
            return present;
        }
        int count = 0;
        for (String name : names.split(",")) {
            // As the driver reads the list: the first entry that names no device ends it.
            if (name.isBlank() || name.strip().startsWith("-")) {
                break;
            }
            count++;
        }
        return Math.min(count, present);
    }

    private static int present() {
        int listed = entries(Path.of("/proc/driver/nvidia/gpus"), "*");
        return listed > 0 ? listed : entries(Path.of("/dev"), "nvidia[0-9]*");
    }

    private static int entries(Path folder, String glob) {
        int count = 0;
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(folder, glob)) {
            for (Path ignored : entries) {
                count++;
            }
        } catch (IOException none) {
            return 0;
        }
        return count;
    }
}
