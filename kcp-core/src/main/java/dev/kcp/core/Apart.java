package dev.kcp.core;

import dev.kcp.conv.ConvChecks;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;

/** The tensors of one call: outputs share no byte with an input or with one another, inputs may. */
final class Apart {
    private record Named(String name, Tensor tensor) {}

    private final List<Named> inputs = new ArrayList<>();
    private final List<Named> outputs = new ArrayList<>();

    /** @param tensor read by the call, or null */
    void input(String name, Tensor tensor) {
        add(inputs, name, tensor);
    }

    /** @param tensor written by the call, or null */
    void output(String name, Tensor tensor) {
        add(outputs, name, tensor);
    }

    private static void add(List<Named> list, String name, Tensor tensor) {
        if (tensor != null) {
            list.add(new Named(name, tensor));
        }
    }

    /** @throws IllegalArgumentException naming an output and what it overlaps */
    void check() {
        for (int i = 0; i < outputs.size(); i++) {
            Named output = outputs.get(i);
            inputs.forEach(input -> ConvChecks.apart(output.name(), output.tensor(), input.name(), input.tensor()));
            for (Named other : outputs.subList(0, i)) {
                ConvChecks.apart(output.name(), output.tensor(), other.name(), other.tensor());
            }
        }
    }
}
