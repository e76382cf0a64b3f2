package dev.kcp.launcher;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.kcp.tensor.Safetensors;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;

/**
 * Two safetensors files, tensor by tensor, in the first file's order.
 *
 * @param tensors those of either file
 */
record FileComparison(List<TensorDifference> tensors) {
    /**
     * Compares every tensor of either file.
     *
     * @throws dev.kcp.KcpException BAD_DATA if one of them cannot be read
     */
    static FileComparison of(Path first, Path second) {
        try (Safetensors a = Safetensors.open(first);
                Safetensors b = Safetensors.open(second)) {
            Set<String> names = new LinkedHashSet<>(a.names());
            names.addAll(b.names());
            return new FileComparison(
                    names.stream().map(name -> TensorDifference.of(name, a, b)).toList());
        }
    }

    boolean isEqual() {
        return tensors.stream().allMatch(TensorDifference::isEqual);
    }

    /** A line per tensor, the first difference of the files, and a JSON summary as the last line. */
    String text() {
        StringBuilder text = new StringBuilder(String.format(
                "%-12s %-5s %-16s %12s %12s %10s %10s %10s%n",
                "tensor", "type", "shape", "elements", "different", "max ulps", "mean ulps", "max abs"));
        for (TensorDifference tensor : tensors) {
            text.append(line(tensor)).append('\n');
        }
        tensors.stream().filter(tensor -> !tensor.isEqual()).findFirst().ifPresent(tensor -> text.append(
                        "first difference: tensor=" + tensor.name() + " ")
                .append(
                        tensor.problem() != null
                                ? tensor.problem()
                                : tensor.place() + " a=" + tensor.firstA() + " b=" + tensor.firstB())
                .append('\n'));
        return text.append(json()).append('\n').toString();
    }

    private static String line(TensorDifference tensor) {
        if (tensor.problem() != null) {
            return String.format("%-12s %s", tensor.name(), tensor.problem());
        }
        return String.format(
                Locale.ROOT,
                "%-12s %-5s %-16s %12d %12d %10.0f %10.3g %10.3g%s",
                tensor.name(),
                tensor.dtype(),
                Arrays.toString(tensor.shape()),
                tensor.elements(),
                tensor.different(),
                tensor.maxUlps(),
                tensor.meanUlps(),
                tensor.maxAbsolute(),
                tensor.nans() == 0 ? "" : "  (" + tensor.nans() + " NaN in one file only)");
    }

    private String json() {
        ObjectNode json = new ObjectMapper().createObjectNode();
        json.put("equal", isEqual());
        for (TensorDifference tensor : tensors) {
            ObjectNode node = json.withArray("tensors").addObject().put("name", tensor.name());
            if (tensor.problem() != null) {
                node.put("problem", tensor.problem());
            } else {
                node.put("elements", tensor.elements())
                        .put("different", tensor.different())
                        .put("max_ulps", tensor.maxUlps())
                        .put("mean_ulps", tensor.meanUlps())
                        .put("nans", tensor.nans());
            }
        }
        return json.toString();
    }
}
