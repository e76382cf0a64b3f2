package dev.kcp.launcher;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.kcp.conv.CausalConv1d;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.conv.cuda.CudaStream;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Safetensors;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * One convolution on one GPU: the whole file, no exchange.
 *
 * @param withHandle run forward a second time before backward, as a recompute would
 * @param gradientType type of dweight and dbias, or null for the parameters' own
 */
record CudaConvJob(ConvInput input, ConvOptions options, boolean backward, boolean withHandle, DType gradientType) {
    private static final int ORDINAL = 0;

    /** Runs it and writes the results. */
    String run(java.nio.file.Path output) {
        long start = System.nanoTime();
        List<Tensor> owned = new ArrayList<>();
        Map<String, Tensor> results = new LinkedHashMap<>();
        try (CudaConvEngine engine = CudaConvEngine.open(ORDINAL)) {
            try {
                return run(engine, owned, results, output, start);
            } finally {
                owned.forEach(Tensor::close);
                results.values().forEach(Tensor::close);
            }
        }
    }

    private String run(
            CudaConvEngine engine,
            List<Tensor> owned,
            Map<String, Tensor> results,
            java.nio.file.Path output,
            long start) {
        CudaStream stream = engine.stream();
        Tensor x = upload(stream, owned, input.read("x"));
        Tensor weight = upload(stream, owned, input.weight());
        Tensor hostBias = input.bias();
        Tensor bias = hostBias == null ? null : upload(stream, owned, hostBias);
        Tensor offsets = upload(stream, owned, input.read("cu_seqlens"));
        CausalConv1d conv = new CausalConv1d(engine, options);
        Tensor y = keep(owned, conv.forward(x, weight, bias, offsets, null));
        if (backward) {
            Tensor dy = upload(stream, owned, input.read("dy"));
            if (withHandle) {
                conv.forward(x, weight, bias, offsets, y);
            }
            Gradients out = new Gradients(
                    keep(owned, stream.uninitialized(DType.BF16, x.shape())),
                    keep(owned, stream.uninitialized(gradientType("weight"), weight.shape())),
                    bias == null ? null : keep(owned, stream.uninitialized(gradientType("bias"), bias.shape())));
            conv.backward(x, weight, bias, offsets, dy, out);
            results.put("dx", stream.download(out.dx()));
            results.put("dweight", stream.download(out.dweight()));
            if (bias != null) {
                results.put("dbias", stream.download(out.dbias()));
            }
        }
        results.put("y", stream.download(y));
        Safetensors.write(output, results);
        List<String> programs = engine.programs(new ConvEngine.Operands(x, weight, bias, null), options);
        return summary(engine, backward ? programs : programs.subList(0, 1), start);
    }

    private DType gradientType(String parameter) {
        return gradientType != null ? gradientType : input.dtype(parameter);
    }

    private static Tensor upload(CudaStream stream, List<Tensor> owned, Tensor host) {
        try (host) {
            return keep(owned, stream.upload(host));
        }
    }

    private static Tensor keep(List<Tensor> owned, Tensor tensor) {
        owned.add(tensor);
        return tensor;
    }

    private static String summary(CudaConvEngine engine, List<String> programs, long start) {
        ObjectNode json = new ObjectMapper().createObjectNode();
        json.put("world", 1);
        json.put("layout", "contiguous");
        json.put("transport", "local");
        json.put("device", "cuda " + engine.stream().device().name());
        programs.forEach(json.withArray("programs")::add);
        json.putObject("halo_bytes").put("forward", 0).put("backward", 0);
        json.putObject("exchanges").put("forward", 0).put("recompute", 0).put("backward", 0);
        json.put("tree_exact", true);
        json.put("elapsed_ms", (System.nanoTime() - start) / 1e6);
        return json.toString();
    }
}
