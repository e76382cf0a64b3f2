package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import dev.kcp.train.cpu.CpuTrainEngine;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.function.Function;
import org.junit.jupiter.api.Test;

/** Owners of tensors each of which fails to close. */
class TrainCloseTest {
    private static final ParameterTable TABLE = new ParameterTable(new ModelShape(2, 8));

    private int opened;
    private int closed;

    private TrainEngine failing(TrainEngine real) {
        return (TrainEngine) Proxy.newProxyInstance(
                TrainCloseTest.class.getClassLoader(),
                new Class<?>[] {TrainEngine.class},
                (proxy, method, arguments) -> {
                    if (method.getName().equals("allocate")) {
                        opened++;
                        return failing(real.allocate((DType) arguments[0], (long[]) arguments[1]));
                    }
                    try {
                        return method.invoke(real, arguments);
                    } catch (InvocationTargetException failure) {
                        throw failure.getCause();
                    }
                });
    }

    private Tensor failing(Tensor real) {
        long bytes = real.elements() * real.dtype().bytes();
        Memory memory = Memory.own(real.device(), real.address(), bytes, () -> {
            real.close();
            throw new IllegalStateException("cannot be closed: number=" + ++closed);
        });
        return Tensor.adopt(memory, real.dtype(), real.shape());
    }

    private void assertClosesAll(Function<TrainEngine, AutoCloseable> owner) {
        try (CpuTrainEngine real = new CpuTrainEngine(1)) {
            AutoCloseable made = owner.apply(failing(real));
            IllegalStateException first = catchThrowableOfType(IllegalStateException.class, made::close);
            assertThat(first).hasMessage("cannot be closed: number=1");
            assertThat(opened).isGreaterThan(1);
            assertThat(closed).isEqualTo(opened);
            assertThat(first.getSuppressed()).hasSize(opened - 1);
            made.close();
            assertThat(closed).isEqualTo(opened);
        } catch (Exception e) {
            throw new IllegalStateException("a second close threw", e);
        }
    }

    @Test
    void theOptimizer() {
        assertClosesAll(engine -> new AdamW(engine, TABLE, 0.1, 1));
    }

    @Test
    void sumsOfAStep() {
        assertClosesAll(engine -> {
            StepSums sums = new StepSums(engine, TABLE);
            sums.reserve(3);
            return sums;
        });
    }

    @Test
    void activations() {
        assertClosesAll(engine -> {
            Activations activations = new Activations(engine, TABLE.shape(), true);
            activations.reserve(16);
            return activations;
        });
    }
}
