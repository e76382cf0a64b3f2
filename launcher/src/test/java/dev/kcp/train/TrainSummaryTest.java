package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class TrainSummaryTest {
    @Test
    void jsonIsOneLineOfTheNamedNumbers() {
        TrainSummary summary = summary(null);
        String json = "{\"first_loss\":5.5,\"final_loss\":2.25,\"steps\":10,\"tokens_per_second\":1234.0,"
                + "\"world\":2,\"layout\":\"contiguous\",\"layers\":4,\"channels\":64,\"tokens\":512,"
                + "\"parameters\":99,\"exchanges\":{\"forward\":1,\"recompute\":0,\"backward\":1},"
                + "\"halo_bytes\":{\"forward\":96,\"backward\":192},\"elapsed_ms\":77,"
                + "\"micro_steps\":3,\"resumed_from\":5,\"activation_bytes\":4096,\"median_step_ms\":12.5";
        assertThat(summary.toJson()).isEqualTo(json + "}");
        assertThat(summary(2.5).toJson()).isEqualTo(json + ",\"held_out_loss\":2.5}");
    }

    private static TrainSummary summary(Double heldOutLoss) {
        return new TrainSummary(
                5.5,
                2.25,
                10,
                1234,
                2,
                "contiguous",
                4,
                64,
                512,
                99,
                new TrainSummary.Exchanges(1L, 0L, 1L),
                new TrainSummary.HaloBytes(96, 192),
                77,
                3,
                5,
                4096,
                12.5,
                heldOutLoss);
    }
}
