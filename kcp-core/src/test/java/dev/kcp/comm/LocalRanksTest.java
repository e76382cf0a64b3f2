package dev.kcp.comm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import dev.kcp.conv.Eventually;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;

class LocalRanksTest {
    private static final Duration DEADLINE = Eventually.LIMIT;

    @Test
    void resultsComeInRankOrder() {
        List<String> results = LocalRanks.run(5, DEADLINE, c -> {
            c.barrier("b");
            return "rank " + c.rank() + " of " + c.size() + " over " + c.transport();
        });
        assertThat(results).hasSize(5).element(3).isEqualTo("rank 3 of 5 over local");
        assertThat(LocalRanks.<Object>run(2, DEADLINE, c -> null)).containsExactly(null, null);
    }

    @Test
    void theFirstThrowIsThrownAndEndsTheOthers() {
        ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
        IllegalArgumentException cause = new IllegalArgumentException("bad channels: channels=7");
        assertThatThrownBy(() -> LocalRanks.run(4, DEADLINE, c -> {
                    if (c.rank() == 2) {
                        throw cause;
                    }
                    try {
                        c.barrier("never");
                    } catch (KcpException e) {
                        seen.add(e.getMessage());
                        throw e;
                    }
                    return null;
                }))
                .isSameAs(cause);
        assertThat(seen).hasSize(3).containsOnly("rank 2 failed: " + cause);
    }

    /** A peer is told of the failure, and throws that, before the rank itself is out of its call. */
    @Test
    void theThrowOfTheFailedRankIsThrownThoughAPeerThrewBefore() {
        IllegalArgumentException cause = new IllegalArgumentException("bad channels: channels=7");
        CompletableFuture<Thread> peer = new CompletableFuture<>();
        assertThatThrownBy(() -> LocalRanks.run(2, DEADLINE, c -> {
                    if (c.rank() == 0) {
                        peer.complete(Thread.currentThread());
                        c.barrier("never");
                        return null;
                    }
                    c.abort(cause.getMessage());
                    try {
                        peer.join().join();
                    } catch (InterruptedException e) {
                        throw new AssertionError(e);
                    }
                    throw cause;
                }))
                .isSameAs(cause);
    }

    @Test
    void aRankThatWaitsOutsideTheGroupIsInterrupted() {
        CountDownLatch never = new CountDownLatch(1);
        CountDownLatch interrupted = new CountDownLatch(1);
        assertThatThrownBy(() -> LocalRanks.run(2, Duration.ofMillis(300), c -> {
                    if (c.rank() == 0) {
                        throw new AssertionError("first");
                    }
                    try {
                        never.await();
                    } catch (InterruptedException _) {
                        interrupted.countDown();
                    }
                    return null;
                }))
                .isInstanceOf(AssertionError.class)
                .hasMessage("first");
        assertThat(interrupted).satisfies(latch -> latch.await());
    }
}
