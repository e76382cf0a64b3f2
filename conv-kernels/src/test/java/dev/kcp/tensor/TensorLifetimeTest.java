package dev.kcp.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.conv.Eventually;
import java.lang.foreign.ValueLayout;
import java.lang.ref.WeakReference;
import org.junit.jupiter.api.Test;

/** Case 102: a view outlives its owner, by a close or because nobody keeps the owner. */
class TensorLifetimeTest {
    @Test
    void aViewOfClosedMemoryThrows() {
        Memory memory = Memory.allocateHost(64);
        Tensor view = Tensor.over(memory, DType.F32, 4, 4);
        Tensor rows = view.rows(1, 3);
        memory.close();
        memory.close();
        for (Tensor left : new Tensor[] {view, rows}) {
            assertThatThrownBy(left::address)
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("closed");
            assertThatThrownBy(left::segment).isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(() -> left.rowAddress(0)).isInstanceOf(IllegalStateException.class);
        }
    }

    @Test
    void aViewKeepsWorkingWhenNobodyElseKeepsTheOwner() {
        Tensor owner = Tensor.zeros(DType.F32, 1000, 16);
        WeakReference<Tensor> kept = new WeakReference<>(owner);
        Tensor view = owner.rows(500, 600);
        owner = null;
        Eventually.reach("the owner is collected", () -> {
            System.gc();
            return kept.get() == null;
        });
        view.segment().set(ValueLayout.JAVA_FLOAT, 40, 3f);
        assertThat(view.segment().get(ValueLayout.JAVA_FLOAT, 40)).isEqualTo(3f);
    }
}
