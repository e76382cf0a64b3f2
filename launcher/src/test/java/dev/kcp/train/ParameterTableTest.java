package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ParameterTableTest {
    @ParameterizedTest
    @CsvSource({"1,8", "3,24", "4,256"})
    void parametersLieInOrderOnCacheLinesWithoutOverlap(int layers, int channels) {
        ParameterTable table = new ParameterTable(new ModelShape(layers, channels));
        long end = 0;
        for (Parameter parameter : table.all()) {
            assertThat(parameter.offset()).isGreaterThanOrEqualTo(end);
            assertThat(parameter.offset() % 16).isZero();
            end = parameter.offset() + parameter.elements();
        }
        assertThat(table.bufferElements()).isGreaterThanOrEqualTo(end);
        long perLayer = 2L * channels * channels + 6L * channels;
        assertThat(table.parameters()).isEqualTo(256L * channels + layers * perLayer + channels);
    }

    @Test
    void onlyTheConvolutionsParametersLieBehindTheSummedOnes() {
        ParameterTable table = new ParameterTable(new ModelShape(2, 8));
        assertThat(table.all().stream()
                        .filter(parameter -> parameter.offset() >= table.summedElements())
                        .map(Parameter::name))
                .containsExactly("layer0.conv.taps", "layer0.conv.bias", "layer1.conv.taps", "layer1.conv.bias");
    }
}
