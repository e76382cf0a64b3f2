package dev.kcp.nccl;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.nccl.DeviceVerdict.Word;
import dev.kcp.tensor.Memory;
import java.lang.foreign.ValueLayout;
import org.junit.jupiter.api.Test;

/** The host's reading of what a device writes. */
class DeviceVerdictTest {
    @Test
    void theFirstWrongMessageIsNamedOnceThePeerIsWritten() {
        Memory memory = Memory.allocateHost(DeviceVerdict.BYTES);
        memory.segment().fill((byte) 7);
        try (DeviceVerdict verdict = new DeviceVerdict(memory)) {
            assertThat(verdict.address()).isEqualTo(memory.address());
            assertThat(verdict.wrong(peer -> "rank " + peer + " of the group")).isEmpty();
            write(memory, Word.EXPECTED_NUMBER, 5);
            write(memory, Word.EXPECTED_DIGEST, 0xabc);
            write(memory, Word.NUMBER, 4);
            write(memory, Word.DIGEST, -1);
            write(memory, Word.LOCK, 1);
            assertThat(verdict.wrong(peer -> "rank " + peer + " of the group")).isEmpty();
            write(memory, Word.PEER_PLUS_1, 3);
            assertThat(verdict.wrong(peer -> "rank " + peer + " of the group"))
                    .contains(
                            "rows from rank 2 of the group are not those of the call: expectedMessage=5 expectedDigest=abc"
                                    + " message=4 digest=ffffffffffffffff");
        }
    }

    private static void write(Memory memory, Word word, long value) {
        memory.segment().setAtIndex(ValueLayout.JAVA_LONG, word.ordinal(), value);
    }
}
