package dev.kcp.nccl;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalCommunicator;
import dev.kcp.comm.Segment;
import dev.kcp.cuda.CudaDevice;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.NeedsGpu;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Rows between many ranks' mailboxes, on as many GPUs as there are: ranks may share one here. */
@NeedsGpu
class DirectRouteTest {
    private static final int EXCHANGES = 40;

    /** Elements of each message, a different number for every pair of ranks. */
    private static int elements(int from, int to) {
        return 100 + 1700 * from + 300 * to;
    }

    private static int value(int from, int to, int exchange, int element) {
        return ((from * 31 + to) * 31 + exchange) * 65_537 + element;
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 3, 8})
    void everyRankSendsToEveryOther(int ranks) throws InterruptedException {
        List<Communicator> controls = LocalCommunicator.group(ranks, GpuRanks.DEADLINE);
        List<Throwable> failures = new CopyOnWriteArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int rank = 0; rank < ranks; rank++) {
            Communicator control = controls.get(rank);
            threads.add(Thread.ofPlatform().start(() -> {
                try {
                    swapAll(control);
                } catch (Throwable e) {
                    failures.add(e);
                    control.abort(e.toString());
                }
            }));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        assertThat(failures).isEmpty();
    }

    private static void swapAll(Communicator control) {
        int me = control.rank();
        try (CudaDevice device = CudaDevice.open(me % GpuRanks.gpus());
                CudaStream stream = CudaStream.createUrgent(device)) {
            DirectRoute route = DirectRoute.open(control, stream);
            List<Tensor> owned = new ArrayList<>();
            List<Tensor> arrived = new ArrayList<>();
            for (int exchange = 0; exchange < EXCHANGES; exchange++) {
                List<Segment> sends = new ArrayList<>();
                List<Segment> receives = new ArrayList<>();
                for (int peer = 0; peer < control.size(); peer++) {
                    if (peer != me) {
                        assertThat(route.reaches(peer))
                                .as("rank %s reaches %s", me, peer)
                                .isTrue();
                        Tensor out = message(stream, me, peer, exchange);
                        Tensor in = stream.zeros(DType.I32, elements(peer, me));
                        owned.add(out);
                        arrived.add(in);
                        sends.add(new Segment(peer, out.address(), 4L * out.elements()));
                        receives.add(new Segment(peer, in.address(), 4L * in.elements()));
                    }
                }
                DirectRoute.Parts outgoing = route.part(sends);
                DirectRoute.Parts incoming = route.part(receives);
                assertThat(outgoing.collective()).isEmpty();
                assertThat(incoming.collective()).isEmpty();
                route.exchange(outgoing.direct(), incoming.direct(), exchange);
            }
            int next = 0;
            for (int exchange = 0; exchange < EXCHANGES; exchange++) {
                for (int peer = 0; peer < control.size(); peer++) {
                    if (peer != me) {
                        try (Tensor in = arrived.get(next++);
                                Tensor host = stream.download(in)) {
                            assertMessage(host, peer, me, exchange);
                        }
                    }
                }
            }
            assertThat(route.wrong()).isEmpty();
            owned.forEach(Tensor::close);
            stream.synchronize();
            control.barrier("all taken");
            route.close(true);
        }
        control.close();
    }

    private static Tensor message(CudaStream stream, int from, int to, int exchange) {
        try (Tensor host = Tensor.zeros(DType.I32, elements(from, to))) {
            for (int i = 0; i < host.elements(); i++) {
                HostMemory.ALL.set(ValueLayout.JAVA_INT, host.address() + 4L * i, value(from, to, exchange, i));
            }
            return stream.upload(host);
        }
    }

    private static void assertMessage(Tensor host, int from, int to, int exchange) {
        for (int i = 0; i < host.elements(); i++) {
            int got = HostMemory.ALL.get(ValueLayout.JAVA_INT, host.address() + 4L * i);
            if (got != value(from, to, exchange, i)) {
                assertThat(got)
                        .as("from %s to %s exchange %s element %s", from, to, exchange, i)
                        .isEqualTo(value(from, to, exchange, i));
            }
        }
    }
}
