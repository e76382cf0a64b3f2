package dev.kcp.launcher;

import java.util.Optional;

/**
 * What became of a job.
 *
 * @param exitCode what the command should end with
 * @param failure the report, which has been printed, where a rank failed or the timeout passed
 * @param rankFailed whether a rank's failure ended the job, so that starting all ranks again may help
 */
public record LaunchResult(int exitCode, Optional<String> failure, boolean rankFailed) {
    static LaunchResult of(int exitCode) {
        return new LaunchResult(exitCode, Optional.empty(), false);
    }
}
