package dev.kcp.train.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.kcp.train.Floats;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class GemmTest {
    private final Gemm gemm = new Gemm(1);

    @ParameterizedTest
    @CsvSource({
        "5,7,3,false,false,0", "5,7,3,true,false,0", "5,7,3,false,true,0", "5,7,3,true,true,0",
        "1,8,16,false,false,1", "64,8,1,true,false,1", "33,256,8,false,true,1", "2,1,9,true,true,1"
    })
    void productMatchesTheFormula(int m, int n, int k, boolean aTransposed, boolean bTransposed, float beta) {
        Random random = new Random(m * 31L + n);
        try (Floats a = Floats.random(m * k, random);
                Floats b = Floats.random(k * n, random);
                Floats c = Floats.random(m * n, random)) {
            double[] expected = new double[m * n];
            for (int i = 0; i < m; i++) {
                for (int j = 0; j < n; j++) {
                    double sum = beta * c.get(i * n + j);
                    for (int p = 0; p < k; p++) {
                        sum += (double) a.get(aTransposed ? p * m + i : i * k + p)
                                * b.get(bTransposed ? j * k + p : p * n + j);
                    }
                    expected[i * n + j] = sum;
                }
            }
            gemm.multiply(m, n, k, a.address(), aTransposed, b.address(), bTransposed, beta, c.address());
            for (int i = 0; i < m * n; i++) {
                assertThat((double) c.get(i)).isCloseTo(expected[i], within(1e-5));
            }
        }
    }

    @Test
    void overwritesWhateverStoodThere() {
        try (Floats a = Floats.of(2);
                Floats b = Floats.of(3);
                Floats c = Floats.of(Float.NaN)) {
            gemm.multiply(1, 1, 1, a.address(), false, b.address(), false, 0, c.address());
            assertThat(c.get(0)).isEqualTo(6);
        }
    }

    @Test
    void sumOverNoTokenIsZeroOrAddsNothing() {
        try (Floats none = Floats.of(1);
                Floats c = Floats.of(5, Float.NaN)) {
            gemm.multiply(1, 1, 0, none.address(), true, none.address(), false, 1, c.address());
            assertThat(c.get(0)).isEqualTo(5);
            gemm.multiply(1, 2, 0, none.address(), true, none.address(), false, 0, c.address());
            assertThat(c.get(0)).isZero();
            assertThat(c.get(1)).isZero();
        }
    }

    @Test
    void noRowsTouchNothing() {
        try (Floats c = Floats.of(5)) {
            gemm.multiply(0, 1, 1, c.address(), false, c.address(), false, 0, c.address());
            assertThat(c.get(0)).isEqualTo(5);
        }
    }

    @Test
    void noThreadIsRefused() {
        assertThatThrownBy(() -> new Gemm(0)).hasMessageEndingWith("threads=0");
    }
}
