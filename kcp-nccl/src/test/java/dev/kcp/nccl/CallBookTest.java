package dev.kcp.nccl;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.CommunicatorStats;
import dev.kcp.comm.LocalRanks;
import dev.kcp.conv.Eventually;
import dev.kcp.tensor.DType;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** What calls count and who hears of them, eager, captured and replayed; no GPU is needed for that. */
class CallBookTest {
    private static final Duration DEADLINE = Eventually.LIMIT;
    private static final Call FORWARD = new Call(Call.Kind.HALO_FORWARD, "layer0", 64, DType.BF16, 7);
    private static final Call BACKWARD = new Call(Call.Kind.HALO_BACKWARD, "layer0", 64, DType.F32, 7);

    private static void onTwoRanks(Consumer<Communicator> body) {
        LocalRanks.run(2, DEADLINE, communicator -> {
            body.accept(communicator);
            return null;
        });
    }

    private static CallBook book(Communicator communicator) {
        return new CallBook(new CallAnnouncer(communicator.split(0, communicator.rank())));
    }

    @Test
    void capturedCallsCountWithEachReplayAndNotBefore() {
        onTwoRanks(communicator -> {
            try (CallBook book = book(communicator)) {
                book.enter(FORWARD);
                book.sent(FORWARD.kind(), 100);
                book.beginCapture();
                assertThat(book.isCapturing()).isTrue();
                book.enter(FORWARD);
                book.sent(FORWARD.kind(), 100);
                book.enter(BACKWARD);
                book.sent(BACKWARD.kind(), 200);
                assertThat(book.captured()).containsExactly(FORWARD, BACKWARD);
                CommunicatorStats perReplay = book.capturedStats();
                book.endCapture();
                assertThat(book.isCapturing()).isFalse();
                assertThat(book.stats().calls(FORWARD.kind())).isOne();
                assertThat(book.stats().bytesSent(BACKWARD.kind())).isZero();
                for (int replay = 0; replay < 3; replay++) {
                    book.enterReplay(Call.of(Call.Kind.REPLAY, "layer0"), perReplay);
                }
                assertThat(book.stats().calls(Call.Kind.REPLAY)).isEqualTo(3);
                assertThat(book.stats().calls(FORWARD.kind())).isEqualTo(4);
                assertThat(book.stats().bytesSent(FORWARD.kind())).isEqualTo(400);
                assertThat(book.stats().bytesSent(BACKWARD.kind())).isEqualTo(600);
            }
        });
    }

    @Test
    void aCallThatIsNewMustMeanTheSameOnAllRanks() {
        assertThatThrownBy(() -> onTwoRanks(communicator -> {
                    try (CallBook book = book(communicator)) {
                        book.enter(communicator.rank() == 0 ? FORWARD : BACKWARD);
                    }
                }))
                .hasMessageContaining("HALO_FORWARD")
                .hasMessageContaining("HALO_BACKWARD");
    }

    /** Known calls are queued without waiting; the ranks' lists are compared all the same. */
    @Test
    void knownCallsInAnotherOrderAreFoundWithoutAnyoneWaiting() {
        assertThatThrownBy(() -> onTwoRanks(communicator -> {
                    try (CallBook book = book(communicator)) {
                        book.enter(FORWARD);
                        book.enter(BACKWARD);
                        book.enter(communicator.rank() == 0 ? FORWARD : BACKWARD);
                        book.enter(communicator.rank() == 0 ? BACKWARD : FORWARD);
                    }
                    communicator.barrier("all told");
                }))
                .isInstanceOfSatisfying(
                        KcpException.class, e -> assertThat(e.code()).isEqualTo(KcpException.Code.DISAGREEMENT));
    }

    @Test
    void digestsTellCallsAndTheirOrderApart() {
        Call otherLabel = new Call(Call.Kind.HALO_FORWARD, "layer1", 64, DType.BF16, 7);
        assertThat(CallDigest.of(FORWARD))
                .isNotEqualTo(CallDigest.of(BACKWARD))
                .isNotEqualTo(CallDigest.of(otherLabel));
        assertThat(CallDigest.of(List.of(FORWARD, BACKWARD)))
                .isNotEqualTo(CallDigest.of(List.of(BACKWARD, FORWARD)))
                .isEqualTo(CallDigest.of(List.of(FORWARD, BACKWARD)));
    }
}
