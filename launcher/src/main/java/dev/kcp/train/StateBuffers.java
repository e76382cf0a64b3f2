package dev.kcp.train;

import dev.kcp.tensor.Tensor;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

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

    @Override
    public void close() {
        all().forEach(ParameterBuffer::close);
    }
}
