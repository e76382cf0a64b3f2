package dev.kcp.core;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalCommunicator;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.RowOps;
import dev.kcp.conv.Shard;
import dev.kcp.conv.cpu.CpuConvEngine;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** A context whose shard and tables each fail to close. */
class ContextCloseTest {
    private final List<Object> opened = new ArrayList<>();
    private final List<Object> closed = new ArrayList<>();

    /** As the real one; it and what it opens throw when they are closed. */
    private <T> T failing(Class<T> type, Object real) {
        Object[] self = new Object[1];
        self[0] = Proxy.newProxyInstance(
                ContextCloseTest.class.getClassLoader(), new Class<?>[] {type}, (proxy, method, arguments) -> {
                    Object result;
                    try {
                        result = method.invoke(real, arguments);
                    } catch (InvocationTargetException failure) {
                        throw failure.getCause();
                    }
                    return switch (method.getName()) {
                        case "close" -> {
                            closed.add(self[0]);
                            throw new IllegalStateException("cannot be closed: number=" + closed.size());
                        }
                        case "shard" -> open(failing(Shard.class, result));
                        case "rowOps" -> failing(RowOps.class, result);
                        case "moves", "additions" -> open(failing(RowOps.Table.class, result));
                        default -> result;
                    };
                });
        return type.cast(self[0]);
    }

    private Object open(Object one) {
        opened.add(one);
        return one;
    }

    /** With those suppressed, in those too. */
    private static int failures(Throwable failure) {
        return 1
                + Stream.of(failure.getSuppressed())
                        .mapToInt(ContextCloseTest::failures)
                        .sum();
    }

    @Test
    void everythingIsClosedAndTheFirstFailureKept() {
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(100, 28), 2, 32);
        List<Communicator> group = LocalCommunicator.group(2, Sharded.DEADLINE);
        try (CpuConvEngine real = new CpuConvEngine(1)) {
            KcpContext context = new KcpContext(partition, group.getFirst(), failing(ConvEngine.class, real));
            IllegalStateException first = catchThrowableOfType(IllegalStateException.class, context::close);
            assertThat(first).hasMessage("cannot be closed: number=1");
            assertThat(opened).hasSizeGreaterThan(3);
            // By identity: the proxies pass equals on.
            assertThat(closed)
                    .usingElementComparator((a, b) -> a == b ? 0 : 1)
                    .containsExactlyInAnyOrderElementsOf(opened);
            assertThat(failures(first)).isEqualTo(opened.size());
            context.close();
            assertThat(closed).hasSize(opened.size());
        } finally {
            group.forEach(Communicator::close);
        }
    }
}
