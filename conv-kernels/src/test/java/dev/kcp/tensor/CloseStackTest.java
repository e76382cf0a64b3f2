package dev.kcp.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Owners that are closed together, some of which throw. */
class CloseStackTest {
    private final List<String> closed = new ArrayList<>();

    private AutoCloseable owner(String name) {
        return () -> closed.add(name);
    }

    private AutoCloseable failing(String name, Exception failure) {
        return () -> {
            closed.add(name);
            throw failure;
        };
    }

    @Test
    void theFirstFailureIsKeptTheRestSuppressedAndEverythingIsClosed() {
        RuntimeException second = new IllegalArgumentException("second");
        RuntimeException fourth = new IllegalStateException("fourth");
        CloseStack stack = new CloseStack();
        stack.push(owner("first"));
        stack.push(failing("second", second));
        stack.push(owner("third"));
        stack.push(failing("fourth", fourth));
        assertThatThrownBy(stack::close).isSameAs(fourth).hasSuppressedException(second);
        assertThat(closed).containsExactly("fourth", "third", "second", "first");
        stack.close();
        assertThat(closed).hasSize(4);
    }

    @Test
    void anErrorIsThrownAsItIsAndACheckedFailureComesAsACause() {
        Error error = new StackOverflowError();
        assertThatThrownBy(() -> CloseStack.closeAll(owner("first"), () -> {
                    throw error;
                }))
                .isSameAs(error);
        assertThatThrownBy(() -> CloseStack.closeAll(owner("first"), failing("second", new IOException("disk full"))))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("disk full")
                .hasCauseInstanceOf(IOException.class);
        assertThat(closed).containsExactly("first", "second", "first");
    }

    @Test
    void whatClosingAfterAFailureThrowsIsSuppressedInThatFailure() {
        RuntimeException close = new IllegalStateException("close");
        Exception failure = new IOException("open");
        CloseStack stack = new CloseStack();
        stack.push(owner("first"));
        stack.push(failing("second", close));
        stack.closeAfter(failure);
        assertThat(failure).hasSuppressedException(close);
        assertThat(closed).containsExactly("second", "first");
    }

    @Test
    void nothingOwnsNothing() {
        CloseStack.closeAll(null, owner("second"), null);
        assertThat(closed).containsExactly("second");
    }

    @Test
    void anOwnerThatThrowsItsOwnFailureAgainDoesNotSuppressItself() {
        RuntimeException same = new IllegalStateException("same");
        assertThatThrownBy(() -> CloseStack.closeAll(failing("first", same), failing("second", same)))
                .isSameAs(same)
                .hasNoSuppressedExceptions();
    }
}
