package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.KcpException;
import dev.kcp.launcher.LaunchSpec;
import dev.kcp.launcher.LocalAgent;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Workers that are JVMs like the launcher's own, as {@code kcp train --world N} starts them. */
class KcpWorkersTest {
    /** A launcher whose workers run the {@code kcp} command given. */
    static final class Launcher {
        private Launcher() {}

        public static void main(String[] args) {
            System.exit(LocalAgent.run(LaunchSpec.workers(2, List.of(args))).exitCode());
        }
    }

    private static KcpProcess.Result workers(String... args) {
        try (KcpProcess launcher = KcpProcess.startMain(Launcher.class.getName(), args)) {
            return launcher.await();
        }
    }

    @Test
    void rankZeroSpeaksOnStdoutAndNoJvmWarningIsLeft() {
        KcpProcess.Result result = workers("--version");
        assertThat(result.exitCode()).isZero();
        assertThat(result.out()).startsWith("kcp ").hasLineCount(1);
        assertThat(result.err()).isEqualTo("[rank 1] " + result.out());
    }

    @Test
    void workersExitCodeComesBack() {
        KcpProcess.Result result = workers("run", "-n", "1", "--timeout", "0.2", "--", "sleep", "60");
        assertThat(result.exitCode()).isEqualTo(KcpException.Code.DEADLINE.exitCode());
        assertThat(result.err())
                .containsPattern("\\[rank [01]] kcp: the job passed its timeout")
                .contains("exited with code 6");
    }
}
