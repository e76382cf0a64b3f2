package dev.kcp.train;

import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;

/**
 * Activations of one rank's shard, {@code [rows, channels]} unless said otherwise, in the engine's types. Buffers are kept
 * from step to step and grown when a shard is larger than all before; views are of the step's rows. With checkpointing
 * every layer uses the same {@link LayerActivations}; only the residual stream is kept per layer.
 */
final class Activations implements AutoCloseable {
    /**
     * What a layer's backward reads beside its input.
     *
     * @param normed output of the norm
     * @param inverseRms FP32 {@code [rows, 1]}, the norm's factor of each row
     * @param x BF16, input of the convolution
     * @param y BF16, output of the convolution
     */
    record LayerActivations(Tensor normed, Tensor inverseRms, Tensor x, Tensor y) {
        private LayerActivations rows(int rows) {
            return new LayerActivations(
                    normed.rows(0, rows), inverseRms.rows(0, rows), x.rows(0, rows), y.rows(0, rows));
        }
    }

    private final TrainEngine engine;
    private final ModelShape shape;
    private final boolean shared;
    private final List<Tensor> owned = new ArrayList<>();
    private final List<Tensor> residual = new ArrayList<>();
    private final List<LayerActivations> layers = new ArrayList<>();
    private long capacityRows = -1;
    private int rows;
    private Tensor logits;
    private Tensor finalNormed;
    private Tensor finalInverseRms;
    private Tensor streamGradient;
    private Tensor normedGradient;
    private Tensor convGradientOut;
    private Tensor convGradientIn;

    /** @param shared whether all layers take turns with one set, because backward recomputes it */
    Activations(TrainEngine engine, ModelShape shape, boolean shared) {
        this.engine = engine;
        this.shape = shape;
        this.shared = shared;
    }

    /** Makes room for a shard; whatever stood in the buffers is lost. */
    void reserve(int shardRows) {
        rows = shardRows;
        if (shardRows <= capacityRows) {
            return;
        }
        close();
        // Shards of later batches differ a little in size.
        capacityRows = shardRows + shardRows / 8 + 1L;
        int channels = shape.channels();
        DType activation = engine.activationType();
        DType stream = engine.streamType();
        for (int i = 0; i <= shape.layers(); i++) {
            residual.add(own(stream, channels));
        }
        for (int layer = 0; layer < shape.layers(); layer++) {
            layers.add(
                    shared && layer > 0
                            ? layers.getFirst()
                            : new LayerActivations(
                                    own(activation, channels),
                                    own(DType.F32, 1),
                                    own(DType.BF16, channels),
                                    own(DType.BF16, channels)));
        }
        logits = own(activation, ModelShape.VOCABULARY);
        finalNormed = own(activation, channels);
        finalInverseRms = own(DType.F32, 1);
        streamGradient = own(stream, channels);
        normedGradient = own(activation, channels);
        convGradientOut = own(DType.BF16, channels);
        convGradientIn = own(DType.BF16, channels);
    }

    /** Bytes of all buffers. */
    long bytes() {
        return owned.stream()
                .mapToLong(tensor -> tensor.elements() * tensor.dtype().bytes())
                .sum();
    }

    private Tensor own(DType dtype, int columns) {
        Tensor tensor = engine.allocate(dtype, capacityRows, columns);
        owned.add(tensor);
        return tensor;
    }

    /** The residual stream before layer {@code place}; after the last layer at {@code place = layers}. */
    Tensor residual(int place) {
        return residual.get(place).rows(0, rows);
    }

    LayerActivations layer(int layer) {
        return layers.get(layer).rows(rows);
    }

    /** {@code [rows, 256]}; their gradient once the loss is known. */
    Tensor logits() {
        return logits.rows(0, rows);
    }

    /** Output of the last norm. */
    Tensor finalNormed() {
        return finalNormed.rows(0, rows);
    }

    /** FP32 {@code [rows, 1]}. */
    Tensor finalInverseRms() {
        return finalInverseRms.rows(0, rows);
    }

    /** Gradient of the residual stream, carried from the output back to the embedding. */
    Tensor streamGradient() {
        return streamGradient.rows(0, rows);
    }

    /** Gradient of the norm's output at hand. */
    Tensor normedGradient() {
        return normedGradient.rows(0, rows);
    }

    /** BF16, dY of the convolution at hand. */
    Tensor convGradientOut() {
        return convGradientOut.rows(0, rows);
    }

    /** BF16, dX of the convolution at hand. */
    Tensor convGradientIn() {
        return convGradientIn.rows(0, rows);
    }

    @Override
    public void close() {
        CloseStack.closeAll(owned);
        owned.clear();
        residual.clear();
        layers.clear();
        capacityRows = -1;
    }
}
