package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ExitStatusTest {
    @ParameterizedTest
    @CsvSource({
        "0, exited with code 0",
        "3, exited with code 3",
        "128, exited with code 128",
        "137, was ended by SIGKILL (signal 9)",
        "139, was ended by SIGSEGV (signal 11)",
        "143, was ended by SIGTERM (signal 15)",
        "159, was ended by SIGSYS (signal 31)",
        "160, exited with code 160",
        "255, exited with code 255"
    })
    void namesSignals(int value, String text) {
        assertThat(new ExitStatus(value).describe()).isEqualTo(text);
    }
}
