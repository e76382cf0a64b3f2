package dev.kcp.train;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.kcp.core.ExchangeCounts;
import java.util.List;

/**
 * What a run came to; its JSON is the last line that {@code kcp train} prints.
 *
 * @param firstLoss loss of the first step's batch, before any update, in nats per byte
 * @param finalLoss loss of the last step's batch, before the last update
 * @param steps optimizer steps made so far, those before a resume too
 * @param tokensPerSecond over all ranks and steps, loading and compiling of the first steps included
 * @param world ranks
 * @param layout how tokens were shared out, as named on the command line
 * @param layers layers of the model
 * @param channels width of the model
 * @param tokens tokens of a batch
 * @param parameters trained numbers
 * @param exchanges counted halo exchanges per layer and step
 * @param haloBytes bytes that all ranks sent in halo exchanges, mean of a step, rounded
 * @param elapsedMillis time of the steps that this process made
 * @param microSteps batches of each step
 * @param resumedFrom steps that were made before this process and gone on from, 0 for none
 * @param activationBytes of the rank that holds most
 * @param medianStepMillis time of half of this process's steps at most, on rank 0; 0 without a step
 * @param heldOutLoss of the weights that the run ended with, on its held-out text; null, and not in the JSON, where there
 *     is none or the run was stopped before it looked
 */
public record TrainSummary(
        @JsonProperty("first_loss") double firstLoss,
        @JsonProperty("final_loss") double finalLoss,
        @JsonProperty("steps") int steps,
        @JsonProperty("tokens_per_second") double tokensPerSecond,
        @JsonProperty("world") int world,
        @JsonProperty("layout") String layout,
        @JsonProperty("layers") int layers,
        @JsonProperty("channels") int channels,
        @JsonProperty("tokens") int tokens,
        @JsonProperty("parameters") long parameters,
        @JsonProperty("exchanges") Exchanges exchanges,
        @JsonProperty("halo_bytes") HaloBytes haloBytes,
        @JsonProperty("elapsed_ms") long elapsedMillis,
        @JsonProperty("micro_steps") int microSteps,
        @JsonProperty("resumed_from") int resumedFrom,
        @JsonProperty("activation_bytes") long activationBytes,
        @JsonProperty("median_step_ms") double medianStepMillis,

        @JsonProperty("held_out_loss") @JsonInclude(JsonInclude.Include.NON_NULL)
        Double heldOutLoss) {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Halo exchanges of one layer in one step, by pass; whole numbers unless layers differed. */
    public record Exchanges(
            @JsonProperty("forward") Number forward,
            @JsonProperty("recompute") Number recompute,
            @JsonProperty("backward") Number backward) {
        static Exchanges of(List<ExchangeCounts> layers, int steps) {
            long layerSteps = Math.max(1, (long) layers.size() * steps);
            return new Exchanges(
                    share(layers.stream().mapToLong(ExchangeCounts::forward).sum(), layerSteps),
                    share(layers.stream().mapToLong(ExchangeCounts::recompute).sum(), layerSteps),
                    share(layers.stream().mapToLong(ExchangeCounts::backward).sum(), layerSteps));
        }

        private static Number share(long exchanges, long layerSteps) {
            if (exchanges % layerSteps == 0) {
                return exchanges / layerSteps;
            }
            return (double) exchanges / layerSteps;
        }
    }

    /** Bytes of one step over all layers and ranks, by direction. */
    public record HaloBytes(
            @JsonProperty("forward") long forward,
            @JsonProperty("backward") long backward) {}

    /** One line of JSON. */
    public String toJson() {
        try {
            return JSON.writeValueAsString(this);
        } catch (JsonProcessingException failure) {
            throw new IllegalStateException("the summary has no JSON form: summary=" + this, failure);
        }
    }
}
