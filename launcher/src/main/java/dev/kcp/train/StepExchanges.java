package dev.kcp.train;

import dev.kcp.core.ExchangeCounts;
import java.util.List;
import java.util.stream.IntStream;

/** Exchanges of each layer over all steps. A replayed step makes those of the last one that was not, uncounted by its calls. */
final class StepExchanges {
    private List<ExchangeCounts> counted = List.of();
    private List<ExchangeCounts> ofOneStep = List.of();
    private List<ExchangeCounts> total = List.of();

    /** @param calls exchanges that each layer's calls made so far */
    void stepDone(List<ExchangeCounts> calls) {
        if (total.isEmpty()) {
            counted = calls.stream().map(none -> ExchangeCounts.NONE).toList();
            total = counted;
        }
        if (!calls.equals(counted)) {
            List<ExchangeCounts> before = counted;
            ofOneStep = IntStream.range(0, calls.size())
                    .mapToObj(layer -> calls.get(layer).since(before.get(layer)))
                    .toList();
            counted = calls;
        }
        List<ExchangeCounts> sum = total;
        total = IntStream.range(0, calls.size())
                .mapToObj(layer -> sum.get(layer).plus(ofOneStep.get(layer)))
                .toList();
    }

    List<ExchangeCounts> total() {
        return total;
    }
}
