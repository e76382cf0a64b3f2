package dev.kcp.core;

import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalCommunicator;
import dev.kcp.conv.cpu.CpuConvEngine;
import dev.kcp.tensor.Device;
import java.lang.reflect.Proxy;
import java.util.List;
import org.junit.jupiter.api.Test;

/** A communicator that moves other memory than the engine's, or at another time, is refused before any effect. */
class ContextDevicesTest {
    private static final Partition TWO = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(128), 2, 64);

    /** As the real one, but for one answer. */
    private static Communicator answering(Communicator real, String method, Object answer) {
        return (Communicator) Proxy.newProxyInstance(
                Communicator.class.getClassLoader(),
                new Class<?>[] {Communicator.class},
                (proxy, called, arguments) ->
                        called.getName().equals(method) ? answer : called.invoke(real, arguments));
    }

    private static void assertRefused(String method, Object answer, String end) {
        List<Communicator> group = LocalCommunicator.group(2, Sharded.DEADLINE);
        try (CpuConvEngine engine = new CpuConvEngine(1)) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> new KcpContext(TWO, answering(group.getFirst(), method, answer), engine))
                    .withMessageEndingWith(end);
        } finally {
            group.forEach(Communicator::close);
        }
    }

    @Test
    void memoryOfAnotherDevice() {
        assertRefused("device", new Device(Device.Kind.CUDA, 1), "communicatorDevice=cuda:1 engineDevice=cpu");
    }

    @Test
    void anotherStream() {
        assertRefused("queue", 0x7f00L, "communicatorStream=0x7f00 engineStream=0x0");
    }
}
