package dev.kcp.multirank;

import dev.kcp.comm.Communicator;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.core.CuSeqlens;
import dev.kcp.core.KcpContext;
import dev.kcp.core.KcpConv1d;
import dev.kcp.core.Layout;
import dev.kcp.core.PartialGradients;
import dev.kcp.core.Partition;
import dev.kcp.core.Phase;
import dev.kcp.core.RecomputeHandle;
import dev.kcp.core.Saved;
import dev.kcp.core.Shards;
import dev.kcp.multirank.FaultRank.Fault;
import dev.kcp.multirank.FaultRank.Place;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.function.IntConsumer;

/** Forward, recompute and backward of two layers with one fault in between. */
final class FaultStep implements AutoCloseable {
    private static final int CHANNELS = 16;
    private static final int WRONG_CHANNELS = 24;
    private static final int[] LENGTHS = {200, 56};
    private static final int LAYERS = 2;

    private final Communicator communicator;
    private final KcpContext context;
    private final Fault fault;
    private final Place place;
    private final boolean culprit;
    private final Runnable atFault;
    private final ConvCase in = ConvCase.random(1, CHANNELS, LENGTHS);
    private final ConvCase wrong = ConvCase.random(2, WRONG_CHANNELS, LENGTHS);
    private final List<Tensor> owned = new ArrayList<>();
    private final Tensor x;
    private final Tensor dy;
    private final KcpConv1d[] layers = new KcpConv1d[LAYERS];
    private final RecomputeHandle[] handles = new RecomputeHandle[LAYERS];
    private final Saved[] saved = new Saved[LAYERS];
    private final Tensor[] y = new Tensor[LAYERS];
    private final Tensor[] dx = new Tensor[LAYERS];
    private final PartialGradients[] sums = new PartialGradients[LAYERS];

    FaultStep(Communicator communicator, ConvEngine engine, Fault fault, Place place, Runnable atFault) {
        this.atFault = atFault;
        this.communicator = communicator;
        this.fault = fault;
        this.place = place;
        this.culprit = communicator.rank() == FaultRank.CULPRIT;
        Partition partition = Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(LENGTHS), communicator.size(), 1);
        context = new KcpContext(partition, communicator, engine);
        x = shard(partition, in.x());
        dy = shard(partition, in.dy());
        for (int layer = 0; layer < LAYERS; layer++) {
            layers[layer] = new KcpConv1d("layer" + layer, ConvOptions.DEFAULT);
            y[layer] = zeros(DType.BF16, CHANNELS);
            dx[layer] = zeros(DType.BF16, CHANNELS);
            boolean only = fault == Fault.HANDLE_ON_ONE_RANK && place != Place.BACKWARD;
            handles[layer] = !only || culprit || place == Place.RECOMPUTE ? RecomputeHandle.create() : null;
        }
    }

    private Tensor shard(Partition partition, Tensor packed) {
        Tensor rows = zeros(packed.dtype(), (int) packed.columns());
        Shards.take(partition, communicator.rank(), packed, rows);
        return rows;
    }

    private Tensor zeros(DType dtype, int channels) {
        Tensor tensor = Tensor.zeros(dtype, context.localTokens(), channels);
        owned.add(tensor);
        return tensor;
    }

    /** Bytes of y, dx, dweight of all layers. */
    byte[] run() {
        calls(Place.FORWARD, new int[] {0, 1}, layer -> keep(layer, forward(layer, x, in.weight(), handles[layer])));
        calls(Place.RECOMPUTE, new int[] {0, 1}, this::recompute);
        calls(
                Place.BACKWARD,
                new int[] {1, 0},
                layer -> sums[layer] = layers[layer].backward(saved[layer], dy, dx[layer]));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (int layer = 0; layer < LAYERS; layer++) {
            try (Gradients reduced = layers[layer].reduceGradients(List.of(sums[layer]), DType.F32)) {
                for (Tensor result : List.of(y[layer], dx[layer], reduced.dweight())) {
                    bytes.write(result.segment().toArray(ValueLayout.JAVA_BYTE));
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
        return bytes.toByteArray();
    }

    private Saved forward(int layer, Tensor rows, Tensor weight, RecomputeHandle handle) {
        Tensor out = rows.columns() == CHANNELS ? y[layer] : zeros(DType.BF16, (int) rows.columns());
        return layers[layer].forward(context, rows, weight, null, out, handle);
    }

    private void keep(int layer, Saved fresh) {
        if (saved[layer] != null) {
            saved[layer].close();
        }
        saved[layer] = fresh;
    }

    private void recompute(int layer) {
        boolean without = fault == Fault.HANDLE_ON_ONE_RANK && place == Place.RECOMPUTE && !culprit;
        RecomputeHandle handle = without ? null : handles[layer];
        y[layer].segment().fill((byte) 0xFF);
        keep(layer, Phase.RECOMPUTE.call(() -> forward(layer, x, in.weight(), handle)));
    }

    /** One phase of the step: the same call of each layer, and what is wrong with it on the culprit. */
    private void calls(Place here, int[] order, IntConsumer call) {
        boolean faulty = culprit && here == place && fault != Fault.NONE;
        if (faulty) {
            atFault.run();
            end();
        }
        for (int i = 0; i < order.length; i++) {
            int layer = order[faulty && fault == Fault.SWAPPED_ORDER ? order.length - 1 - i : i];
            if (faulty && i == 0 && fault == Fault.SKIPPED_CALL) {
                continue;
            }
            if (faulty && i == 0 && (fault == Fault.WRONG_CHANNELS || fault == Fault.WRONG_DTYPE)) {
                wrongCall(here, layer);
            } else {
                if (faulty && fault == Fault.HANDLE_ON_ONE_RANK && here == Place.BACKWARD) {
                    handles[layer].clear();
                }
                call.accept(layer);
            }
        }
    }

    private void end() {
        switch (fault) {
            case THROW -> throw new IllegalStateException("injected");
            case EXIT_0 -> System.exit(0);
            case EXIT_3 -> System.exit(3);
            case SIGKILL -> signal("-KILL");
            case SIGSTOP -> {
                signal("-STOP");
                stay();
            }
            default -> {}
        }
    }

    /** Who ends a stopped rank continues it first; it makes no further call then. */
    private static void stay() {
        try {
            new CountDownLatch(1).await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void signal(String name) {
        try {
            new ProcessBuilder(
                            "kill", name, Long.toString(ProcessHandle.current().pid()))
                    .start()
                    .waitFor();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void wrongCall(Place here, int layer) {
        boolean channels = fault == Fault.WRONG_CHANNELS;
        int width = channels ? WRONG_CHANNELS : CHANNELS;
        Tensor rows = zeros(channels ? DType.BF16 : DType.F32, width);
        Tensor weight = channels ? wrong.weight() : in.weight();
        switch (here) {
            case FORWARD -> keep(layer, forward(layer, rows, weight, handles[layer]));
            case RECOMPUTE -> keep(layer, Phase.RECOMPUTE.call(() -> forward(layer, rows, weight, handles[layer])));
            case BACKWARD -> sums[layer] = layers[layer].backward(saved[layer], rows, dx[layer]);
        }
    }

    @Override
    public void close() {
        for (int layer = 0; layer < LAYERS; layer++) {
            if (saved[layer] != null) {
                saved[layer].close();
            }
            if (handles[layer] != null) {
                handles[layer].clear();
            }
            if (sums[layer] != null) {
                sums[layer].close();
            }
        }
        owned.forEach(Tensor::close);
        in.close();
        wrong.close();
        context.close();
    }
}
