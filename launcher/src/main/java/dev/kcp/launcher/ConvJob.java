package dev.kcp.launcher;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.kcp.comm.Call;
import dev.kcp.comm.Communicator;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.core.Checkpoint;
import dev.kcp.core.ExchangeCounts;
import dev.kcp.core.KcpContext;
import dev.kcp.core.KcpConv1d;
import dev.kcp.core.PartialGradients;
import dev.kcp.core.Partition;
import dev.kcp.core.RecomputeHandle;
import dev.kcp.core.Saved;
import dev.kcp.core.Shards;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Safetensors;
import dev.kcp.tensor.Tensor;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * One convolution over a group, as every rank of it runs: rank 0 gathers the results into batch order, writes the file and
 * makes the summary.
 *
 * @param layout the partition's name in the summary
 * @param withHandle run forward, then again from the handle's rows before backward
 * @param gradientType type of dweight and dbias, or null for the parameters' own
 */
record ConvJob(
        ConvInput input,
        Path output,
        Partition partition,
        String layout,
        ConvOptions options,
        boolean backward,
        boolean withHandle,
        DType gradientType) {

    private static final String LABEL = "conv";

    /** Elements of x. */
    long elements() {
        return input.rows() * input.channels();
    }

    /** Runs this rank's part; returns the JSON summary on rank 0 and null on the others. */
    String run(Communicator communicator, ConvEngine engine) {
        long start = System.nanoTime();
        int rank = communicator.rank();
        int tokens = partition.tokens(rank);
        Map<String, Tensor> results = new LinkedHashMap<>();
        RecomputeHandle handle = withHandle ? RecomputeHandle.create() : null;
        DeviceCopies copies = DeviceCopies.of(engine);
        try (KcpContext context = new KcpContext(partition, communicator, engine);
                Tensor x = copies.upload(input.shard("x", partition, rank));
                Tensor dy = backward ? copies.upload(input.shard("dy", partition, rank)) : null;
                Tensor weight = copies.upload(input.weight());
                Tensor bias = copies.upload(input.bias());
                Tensor y = engine.allocate(DType.BF16, tokens, x.columns());
                Tensor dx = backward ? engine.allocate(DType.BF16, tokens, x.columns()) : null;
                Checkpoint region = withHandle ? Checkpoint.of(handle) : Checkpoint.of()) {
            KcpConv1d conv = new KcpConv1d(LABEL, options);
            try (Saved first = region.forward(() -> conv.forward(context, x, weight, bias, y, handle))) {
                if (backward && !withHandle) {
                    gradients(conv, first, dy, dx, copies, results);
                }
            }
            if (backward && withHandle) {
                try (Saved again = region.recompute(() -> conv.forward(context, x, weight, bias, y, handle))) {
                    gradients(conv, again, dy, dx, copies, results);
                }
            }
            Halo halo = Halo.ofGroup(communicator, conv.exchanges());
            gather(communicator, "y", y, copies, results);
            if (backward) {
                gather(communicator, "dx", dx, copies, results);
            }
            if (rank > 0) {
                return null;
            }
            Safetensors.write(output, results);
            List<String> programs = engine.programs(new ConvEngine.Operands(x, weight, bias, null), options, true);
            return summary(
                    communicator, halo, copies.deviceName(), backward ? programs : programs.subList(0, 1), start);
        } finally {
            results.values().forEach(Tensor::close);
            if (handle != null) {
                handle.clear();
            }
        }
    }

    private void gradients(
            KcpConv1d conv, Saved saved, Tensor dy, Tensor dx, DeviceCopies copies, Map<String, Tensor> results) {
        try (PartialGradients sums = conv.backward(saved, dy, dx)) {
            Gradients reduced = conv.reduceGradients(List.of(sums), gradientType("weight"), gradientType("bias"));
            results.put("dweight", copies.download(reduced.dweight()));
            if (reduced.dbias() != null) {
                results.put("dbias", copies.download(reduced.dbias()));
            }
        }
    }

    private DType gradientType(String parameter) {
        return gradientType != null ? gradientType : input.dtype(parameter);
    }

    private void gather(
            Communicator communicator, String name, Tensor local, DeviceCopies copies, Map<String, Tensor> results) {
        Tensor packed = communicator.rank() == 0 ? Tensor.zeros(DType.BF16, input.shape()) : null;
        if (packed != null) {
            results.put(name, packed);
        }
        copies.onHost(local, rows -> Shards.gather(communicator.host(), partition, "gather " + name, rows, packed));
    }

    private String summary(Communicator communicator, Halo halo, String device, List<String> programs, long start) {
        ObjectNode json = new ObjectMapper().createObjectNode();
        json.put("world", communicator.size());
        json.put("layout", layout);
        json.put("transport", communicator.transport());
        json.put("device", device);
        programs.forEach(json.withArray("programs")::add);
        json.putObject("halo_bytes").put("forward", halo.forwardBytes()).put("backward", halo.backwardBytes());
        json.putObject("exchanges")
                .put("forward", halo.exchanges().forward())
                .put("recompute", halo.exchanges().recompute())
                .put("backward", halo.exchanges().backward());
        json.put("tree_exact", partition.isTreeExact());
        json.put("elapsed_ms", (System.nanoTime() - start) / 1e6);
        return json.toString();
    }

    /** What the halo cost: calls as one rank counted them, bytes as all ranks sent them. */
    private record Halo(ExchangeCounts exchanges, long forwardBytes, long backwardBytes) {
        static Halo ofGroup(Communicator communicator, ExchangeCounts exchanges) {
            ByteBuffer mine = ByteBuffer.allocate(2 * Long.BYTES)
                    .putLong(communicator.stats().bytesSent(Call.Kind.HALO_FORWARD))
                    .putLong(communicator.stats().bytesSent(Call.Kind.HALO_BACKWARD));
            long forward = 0;
            long backward = 0;
            for (byte[] theirs : communicator.allGather("halo bytes", mine.array())) {
                ByteBuffer bytes = ByteBuffer.wrap(theirs);
                forward += bytes.getLong();
                backward += bytes.getLong();
            }
            return new Halo(exchanges, forward, backward);
        }
    }
}
