package dev.kcp.train;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.kcp.comm.Communicator;
import dev.kcp.comm.RankInfo;
import dev.kcp.comm.TcpCommunicator;
import dev.kcp.core.ExchangeCounts;
import dev.kcp.core.Layout;
import dev.kcp.tensor.CloseStack;
import dev.kcp.train.cpu.CpuTrainEngine;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Step time and activation memory by number of layers: activations kept, recomputed with handles, recomputed with a second
 * exchange. The three take turns step by step in the same processes, so that what else the machine does meets all alike.
 * Started by {@code kcp run}, see benchmarks/README.md.
 */
final class CheckpointBench {
    private static final int[] LAYERS = {1, 4, 16};

    private CheckpointBench() {}

    /** Text, channels, tokens, steps, commit, output file. */
    public static void main(String[] args) throws IOException {
        TextCorpus corpus = TextCorpus.read(List.of(Path.of(args[0])), false);
        int channels = Integer.parseInt(args[1]);
        int tokens = Integer.parseInt(args[2]);
        int steps = Integer.parseInt(args[3]);
        ObjectMapper mapper = new ObjectMapper();
        ObjectNode json = mapper.createObjectNode();
        json.put("commit", args[4])
                .put("channels", channels)
                .put("tokens", tokens)
                .put("steps", steps);
        ArrayNode rows = json.putArray("rows");
        RankInfo me = RankInfo.fromEnvironment(System.getenv()).orElseThrow();
        try (Communicator group = TcpCommunicator.join(me, Duration.ofSeconds(60));
                TrainEngine engine = new CpuTrainEngine(1)) {
            json.put("world", group.size());
            for (int layers : LAYERS) {
                measure(corpus, new ModelShape(layers, channels), tokens, steps, group, engine, rows);
            }
            if (group.rank() == 0) {
                String text = mapper.writerWithDefaultPrettyPrinter().writeValueAsString(json);
                Files.writeString(Path.of(args[5]), text + "\n");
                System.out.println(text);
            }
        }
    }

    private static void measure(
            TextCorpus corpus,
            ModelShape shape,
            int tokens,
            int steps,
            Communicator group,
            TrainEngine engine,
            ArrayNode rows) {
        Map<Recompute, long[]> nanos = new EnumMap<>(Recompute.class);
        Map<Recompute, TrainStep> trainers = new EnumMap<>(Recompute.class);
        try (CloseStack owners = new CloseStack()) {
            for (Recompute mode : Recompute.values()) {
                TrainConfig config = new TrainConfig(
                        shape,
                        tokens,
                        steps,
                        1,
                        0.004,
                        0.1,
                        1,
                        Layout.CONTIGUOUS,
                        64,
                        mode != Recompute.NONE,
                        true,
                        1,
                        mode != Recompute.EXCHANGING);
                trainers.put(mode, owners.push(new TrainStep(config, group, engine)));
                nanos.put(mode, new long[steps]);
            }
            Packer packer = new Packer(corpus, tokens, 1);
            List<Recompute> order = new ArrayList<>(List.of(Recompute.values()));
            for (int step = 1; step <= steps; step++) {
                PackedBatch batch = packer.next();
                Collections.rotate(order, 1);
                for (Recompute mode : order) {
                    group.barrier("step");
                    trainers.get(mode).run(step, batch, 0.001);
                    nanos.get(mode)[step - 1] = trainers.get(mode).times().totalNanos();
                }
            }
            trainers.forEach((mode, train) -> {
                ExchangeCounts exchanges = train.exchanges().getFirst();
                rows.addObject()
                        .put("layers", shape.layers())
                        .put("activations", mode.name().toLowerCase(Locale.ROOT))
                        .put("median_step_ms", millis(nanos.get(mode), 0.5))
                        .put("tenth_step_ms", millis(nanos.get(mode), 0.1))
                        .put("activation_bytes", train.activationBytes())
                        .put("forward_exchanges", exchanges.forward() / steps)
                        .put("recompute_exchanges", exchanges.recompute() / steps)
                        .put("backward_exchanges", exchanges.backward() / steps);
            });
        }
    }

    /** A quantile of the second half, after programs were compiled. */
    private static double millis(long[] nanos, double quantile) {
        long[] sorted = Arrays.copyOfRange(nanos, nanos.length / 2, nanos.length);
        Arrays.sort(sorted);
        return Math.round(sorted[(int) (quantile * sorted.length)] / 1e3) / 1e3;
    }
}
