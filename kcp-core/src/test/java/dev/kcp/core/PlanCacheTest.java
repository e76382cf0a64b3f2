package dev.kcp.core;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import java.util.Random;
import org.junit.jupiter.api.Test;

/** Cases 43, 44 and 48: plans are kept by what they are for, never by the array that said so. */
class PlanCacheTest {
    private static Partition partition(int... offsets) {
        return Partition.of(Layout.ZIGZAG, CuSeqlens.of(offsets), 2, 1);
    }

    @Test
    void anArrayThatIsWrittenOverBringsAnotherPlan() {
        PlanCache cache = new PlanCache(4);
        int[] buffer = {0, 5, 9};
        RankPlan a = cache.get(partition(buffer), HistoryCounts.NONE, 0);
        buffer[1] = 7;
        RankPlan b = cache.get(partition(buffer), HistoryCounts.NONE, 0);
        buffer[1] = 5;
        assertThat(cache.get(partition(buffer), HistoryCounts.NONE, 0)).isSameAs(a);
        assertThat(b).isNotSameAs(a);
        assertThat(b.digest()).isNotEqualTo(a.digest());
        assertThat(cache.builds()).isEqualTo(2);
    }

    @Test
    void historyAndRankBelongToTheLayout() {
        PlanCache cache = new PlanCache(4);
        RankPlan plain = cache.get(partition(0, 5, 9), HistoryCounts.of(0, 0), 0);
        assertThat(cache.get(partition(0, 5, 9), HistoryCounts.of(0, 1), 0)).isNotSameAs(plain);
        assertThat(cache.get(partition(0, 5, 9), HistoryCounts.NONE, 1)).isNotSameAs(plain);
        assertThat(cache.get(partition(0, 5, 9), HistoryCounts.NONE, 0)).isSameAs(plain);
    }

    @Test
    void fortyLayersBuildThePlanOnce() {
        PlanCache cache = new PlanCache(1);
        for (int layer = 0; layer < 40; layer++) {
            cache.get(partition(0, 5, 9), HistoryCounts.NONE, 1);
        }
        assertThat(cache.builds()).isEqualTo(1);
    }

    @Test
    void aThousandArraysThatAreFreedAfterUse() {
        PlanCache cache = new PlanCache(3);
        Random random = new Random(1);
        for (int i = 0; i < 1000; i++) {
            int cut = random.nextInt(10);
            RankPlan plan = cache.get(partition(0, cut, 9), HistoryCounts.NONE, 0);
            assertThat(plan.partition().cuSeqlens()).isEqualTo(CuSeqlens.of(0, cut, 9));
            if (i % 250 == 0) {
                System.gc();
            }
        }
        assertThatIllegalArgumentException().isThrownBy(() -> new PlanCache(0)).withMessageContaining("capacity=0");
    }
}
