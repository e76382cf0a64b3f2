package dev.kcp.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.ValueLayout;
import java.lang.ref.WeakReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Case 102: a view outlives its owner, by a close or because nobody keeps the owner. */
@Timeout(60)
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
    void aViewKeepsWorkingWhenNobodyElseKeepsTheOwner() throws InterruptedException {
        Tensor owner = Tensor.zeros(DType.F32, 1000, 16);
        WeakReference<Tensor> kept = new WeakReference<>(owner);
        Tensor view = owner.rows(500, 600);
        owner = null;
        for (int i = 0; i < 100 && kept.get() != null; i++) {
            System.gc();
            Thread.sleep(10);
        }
        assertThat(kept.get()).isNull();
        view.segment().set(ValueLayout.JAVA_FLOAT, 40, 3f);
        assertThat(view.segment().get(ValueLayout.JAVA_FLOAT, 40)).isEqualTo(3f);
    }
}
