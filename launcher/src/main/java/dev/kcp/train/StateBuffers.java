package dev.kcp.train;

import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Weights and both moments of the optimizer in host memory, on their way to or from a file. */
final class StateBuffers implements AutoCloseable {
    private final ParameterBuffer weights;
    private final ParameterBuffer first;
    private final ParameterBuffer second;

    /** Zeros. */
    StateBuffers(ParameterTable table) {
        weights = new ParameterBuffer(table);
        first = new ParameterBuffer(table);
        second = new ParameterBuffer(table);
    }

    ParameterBuffer weights() {
        return weights;
    }

    /** FP32 first moment. */
    ParameterBuffer first() {
        return first;
    }

    /** FP32 second moment. */
    ParameterBuffer second() {
        return second;
    }

    List<ParameterBuffer> all() {
        return List.of(weights, first, second);
    }

    /** Every parameter's tensors by the name that they have in a file, in a fixed order; borrowed. */
    Map<String, Tensor> tensors() {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        for (Parameter parameter : weights.table().all()) {
            tensors.put("weight." + parameter.name(), weights.tensor(parameter));
            tensors.put("first_moment." + parameter.name(), first.tensor(parameter));
            tensors.put("second_moment." + parameter.name(), second.tensor(parameter));
        }
        return tensors;
    }

    /** The first number that is not finite, as {@code tensor=NAME element=N value=V}. */
    Optional<String> notFinite() {
        for (Map.Entry<String, Tensor> entry : tensors().entrySet()) {
            MemorySegment numbers = entry.getValue().segment();
            for (long at = 0; at < numbers.byteSize(); at += Float.BYTES) {
                float value = numbers.get(ValueLayout.JAVA_FLOAT, at);
                if (!Float.isFinite(value)) {
                    return Optional.of("tensor=" + entry.getKey() + " element=" + at / Float.BYTES + " value=" + value);
                }
            }
        }
        return Optional.empty();
    }

    @Override
    public void close() {
        CloseStack.closeAll(all());
    }
}
