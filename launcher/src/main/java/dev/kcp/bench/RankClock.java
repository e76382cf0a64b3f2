package dev.kcp.bench;

import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.cuda.CudaEvent;
import dev.kcp.cuda.CudaStream;

/** Times work of one rank on its own device: between events on a GPU's stream, by the clock on the host. */
interface RankClock {
    /** Milliseconds of each of several runs, one right after another. */
    double[] millis(Runnable body, int runs);

    static RankClock of(ConvEngine engine) {
        return engine instanceof CudaConvEngine cuda ? (body, runs) -> onStream(cuda.stream(), body, runs) : ofHost();
    }

    /** The host's clock, for work that the host waits for. */
    static RankClock ofHost() {
        return RankClock::onHost;
    }

    private static double[] onHost(Runnable body, int runs) {
        double[] millis = new double[runs];
        for (int i = 0; i < runs; i++) {
            long start = System.nanoTime();
            body.run();
            millis[i] = (System.nanoTime() - start) / 1e6;
        }
        return millis;
    }

    private static double[] onStream(CudaStream stream, Runnable body, int runs) {
        CudaEvent[] ends = new CudaEvent[runs + 1];
        for (int i = 0; i <= runs; i++) {
            ends[i] = new CudaEvent(stream.device());
        }
        ends[0].record(stream);
        for (int i = 1; i <= runs; i++) {
            body.run();
            ends[i].record(stream);
        }
        stream.synchronize();
        double[] millis = new double[runs];
        for (int i = 0; i < runs; i++) {
            millis[i] = ends[i + 1].millisSince(ends[i]);
        }
        for (CudaEvent end : ends) {
            end.close();
        }
        return millis;
    }
}
