package dev.kcp.core;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import dev.kcp.comm.LocalRanks;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.cpu.CpuConvEngine;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** {@link KcpContext#waitReady} is the engine's to do, since what is on its way to a device only that knows. */
class ContextReadyTest {
    private static final long QUEUE = 4711;

    /** The CPU's programs, and what was asked of them by name. */
    private static ConvEngine noting(ConvEngine engine, List<String> asked) {
        return (ConvEngine) Proxy.newProxyInstance(
                ConvEngine.class.getClassLoader(), new Class<?>[] {ConvEngine.class}, (self, method, arguments) -> {
                    String name = method.getName();
                    if (name.equals("shard") || name.equals("update") || name.equals("holdBack")) {
                        asked.add(name.equals("holdBack") ? name + " " + arguments[0] : name);
                    }
                    try {
                        return method.invoke(engine, arguments);
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                });
    }

    @Test
    void theQueueIsHeldBackByTheEngineBehindTheTablesOfTheBatch() {
        List<String> asked = new ArrayList<>();
        LocalRanks.run(1, Sharded.DEADLINE, communicator -> {
            Partition first = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(9, 7), 1, 1);
            Partition second = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(3, 13), 1, 1);
            try (CpuConvEngine cpu = new CpuConvEngine(1)) {
                KcpContext context = KcpContext.updatable(first, 2, communicator, noting(cpu, asked));
                context.waitReady(QUEUE);
                context.update(second);
                context.waitReady(QUEUE + 1);
                context.close();
                assertThatIllegalStateException().isThrownBy(() -> context.waitReady(QUEUE));
            }
            return null;
        });
        assertThat(asked).containsExactly("shard", "holdBack 4711", "update", "holdBack 4712");
    }
}
