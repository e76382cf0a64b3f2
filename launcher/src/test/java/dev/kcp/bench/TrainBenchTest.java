package dev.kcp.bench;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.comm.LocalRanks;
import dev.kcp.core.Layout;
import dev.kcp.train.ModelShape;
import dev.kcp.train.TrainConfig;
import dev.kcp.train.TrainEngine;
import dev.kcp.train.cpu.CpuTrainEngine;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

class TrainBenchTest {
    @Test
    void threeWaysOfOneStepWithTheBytesOfTheWholeOne() {
        TrainConfig config = new TrainConfig(
                new ModelShape(2, 16),
                2 * 192,
                TrainBench.steps(2),
                1,
                0.001,
                0.1,
                1,
                Layout.CONTIGUOUS,
                64,
                true,
                true);
        List<List<BenchRow>> ofRanks = LocalRanks.run(2, Duration.ofSeconds(60), communicator -> {
            try (TrainEngine engine = new CpuTrainEngine(1)) {
                return new TrainBench(communicator, engine, 2).run(config, 10);
            }
        });
        List<BenchRow> rows = ofRanks.getFirst();
        assertThat(rows)
                .extracting(BenchRow::program)
                .satisfiesExactly(
                        whole -> assertThat(whole).isEqualTo("localx2-contiguous-layers2-align64-whole"),
                        hollow -> assertThat(hollow).startsWith("localx2-contiguous-layers2-align64-halo-hollow"),
                        none -> assertThat(none).startsWith("localx2-contiguous-layers2-align64-exchanges-hollow"));
        assertThat(rows).allSatisfy(row -> {
            assertThat(row.op()).isEqualTo("train");
            assertThat(row.tokens()).isEqualTo(192);
            assertThat(row.documents()).isEqualTo(5);
            assertThat(row.iterations()).isEqualTo(6);
            assertThat(row.milliseconds()).isPositive();
            assertThat(row.floorMilliseconds()).isEqualTo(rows.get(1).milliseconds());
        });
        // Rank 0 sends its last three rows in BF16 forward, and rank 1 gradients of those back; 2 layers of 16
        // channels.
        assertThat(ofRanks.get(0).getFirst().bytes()).isEqualTo(2 * 3 * 16 * 2);
        assertThat(ofRanks.get(1).getFirst().bytes()).isEqualTo(2 * 3 * 16 * 4);
        assertThat(rows.get(1).bytes()).isZero();
        assertThat(rows.get(2).bytes()).isZero();
    }
}
