package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.comm.LocalRanks;
import dev.kcp.conv.cuda.NeedsTwoGpus;
import dev.kcp.core.Layout;
import dev.kcp.nccl.NcclCommunicator;
import dev.kcp.nccl.NcclLibrary;
import dev.kcp.train.CudaRuns.Run;
import dev.kcp.train.cuda.CudaTrainEngine;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The whole run on one GPU and on two, connected by NCCL, bit by bit; steps are replayed from the fourth on. */
@NeedsTwoGpus
class CudaWorldTest {
    private static final Duration DEADLINE = Duration.ofSeconds(60);

    @ParameterizedTest(name = "{0} tokens, {1} channels, align {2}, {3}")
    @CsvSource({
        "777,64,64,CONTIGUOUS",
        "777,64,64,ZIGZAG",
        "777,64,64,ZIGZAG_PER_DOCUMENT",
        "8192,512,1024,CONTIGUOUS",
        "1500,40,192,ZIGZAG"
    })
    void lossNormWeightsAndMomentsDoNotDependOnTheNumberOfGpus(int tokens, int channels, int align, Layout layout) {
        Run alone =
                run(CudaRuns.config(tokens, channels, layout, align, true), 1).getFirst();
        for (Run together : run(CudaRuns.config(tokens, channels, layout, align, true), 2)) {
            assertThat(together.results()).isEqualTo(alone.results());
            assertThat(together.weights()).isEqualTo(alone.weights());
            assertThat(together.first()).isEqualTo(alone.first());
            assertThat(together.second()).isEqualTo(alone.second());
            assertThat(together.exchanges()).isEqualTo(alone.exchanges());
        }
    }

    private static List<Run> run(TrainConfig config, int world) {
        return LocalRanks.run(world, DEADLINE, control -> {
            try (CudaTrainEngine engine = BothEngines.openGpu(control.rank());
                    NcclCommunicator group = NcclCommunicator.create(
                            control,
                            engine.stream(),
                            world == 1 ? null : NcclLibrary.require(System.getenv()),
                            DEADLINE)) {
                engine.join(group);
                return CudaRuns.run(config, group, engine);
            }
        });
    }
}
