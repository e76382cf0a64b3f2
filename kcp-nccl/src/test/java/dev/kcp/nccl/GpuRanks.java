package dev.kcp.nccl;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalCommunicator;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.Eventually;
import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.core.Sharded;
import dev.kcp.cuda.CudaDevice;
import dev.kcp.tensor.Tensor;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.BiFunction;
import java.util.function.Function;

/** Ranks as threads, each with a GPU of its own, connected by NCCL; kept from test to test until one fails. */
final class GpuRanks implements Sharded.Place, AutoCloseable {
    static final Duration DEADLINE = Eventually.LIMIT;

    /** One rank between two tests. */
    record Rank(CudaConvEngine engine, NcclCommunicator communicator) {}

    private final List<ExecutorService> threads = new ArrayList<>();
    private final List<Rank> ranks = new ArrayList<>();

    GpuRanks(int count, Duration deadline) {
        this(count, deadline, Route.DIRECT);
    }

    GpuRanks(int count, Duration deadline, Route route) {
        List<Communicator> controls = LocalCommunicator.group(count, deadline);
        for (int rank = 0; rank < count; rank++) {
            threads.add(Executors.newSingleThreadExecutor(
                    Thread.ofPlatform().daemon().name("kcp-gpu-rank-" + rank).factory()));
        }
        ranks.addAll(onAll(rank -> {
            CudaConvEngine engine = CudaConvEngine.open(rank);
            return new Rank(
                    engine, NcclCommunicator.create(controls.get(rank), engine.stream(), library(), deadline, route));
        }));
    }

    static int gpus() {
        return CudaDevice.count();
    }

    static Path library() {
        return NcclLibrary.require(System.getenv());
    }

    private <T> List<T> onAll(Function<Integer, T> body) {
        List<Future<T>> futures = new ArrayList<>();
        for (int rank = 0; rank < threads.size(); rank++) {
            int number = rank;
            futures.add(threads.get(rank).submit(() -> body.apply(number)));
        }
        List<T> results = new ArrayList<>();
        RuntimeException first = null;
        for (Future<T> future : futures) {
            try {
                results.add(future.get());
            } catch (ExecutionException e) {
                first = first != null ? first : new IllegalStateException(e.getCause());
                first.addSuppressed(e.getCause());
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
        if (first != null) {
            throw first;
        }
        return results;
    }

    /** Runs the body on every rank; throws the first failure with all of them as suppressed ones. */
    <T> List<T> run(BiFunction<NcclCommunicator, CudaConvEngine, T> body) {
        return onAll(rank -> {
            Rank own = ranks.get(rank);
            try {
                T result = body.apply(own.communicator(), own.engine());
                own.communicator().synchronize();
                return result;
            } catch (RuntimeException | Error e) {
                own.communicator().abort(e.toString());
                throw e;
            }
        });
    }

    @Override
    public <T> List<T> run(int count, BiFunction<Communicator, ConvEngine, T> body) {
        if (count != ranks.size()) {
            throw new IllegalArgumentException("another number of ranks: ranks=" + ranks.size() + " wanted=" + count);
        }
        return run(body::apply);
    }

    @Override
    public Tensor toDevice(ConvEngine engine, Tensor host) {
        try (host) {
            return ((CudaConvEngine) engine).stream().upload(host);
        }
    }

    @Override
    public Tensor toHost(ConvEngine engine, Tensor device) {
        try (device) {
            return ((CudaConvEngine) engine).stream().download(device);
        }
    }

    @Override
    public void close() {
        onAll(rank -> {
            ranks.get(rank).communicator().close();
            ranks.get(rank).engine().close();
            return null;
        });
        threads.forEach(ExecutorService::shutdown);
    }
}
