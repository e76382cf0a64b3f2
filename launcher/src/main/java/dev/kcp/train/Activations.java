package dev.kcp.train;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;

/**
 * Activations of one rank's shard, FP32 {@code [rows, channels]} unless said otherwise. Buffers are kept from step to
 * step and grown when a shard is larger than all before. With checkpointing every layer uses the same
 * {@link LayerActivations}; only the residual stream is kept per layer.
 */
final class Activations implements AutoCloseable {
    /**
     * What a layer's backward reads beside its input.
     *
     * @param normed output of the norm
     * @param inverseRms FP32 {@code [rows]}, the norm's factor of each row
     * @param x BF16, input of the convolution
     * @param y BF16, output of the convolution
     */
    record LayerActivations(Tensor normed, Tensor inverseRms, Tensor x, Tensor y) {}

    private final ModelShape shape;
    private final boolean shared;
    private final List<Tensor> owned = new ArrayList<>();
    private final List<Tensor> residual = new ArrayList<>();
    private final List<LayerActivations> layers = new ArrayList<>();
    private long capacityRows = -1;
    private Tensor logits;
    private Tensor finalInverseRms;
    private Tensor residualGradient;
    private Tensor scratch;
    private Tensor otherScratch;
    private Tensor convGradientOut;
    private Tensor convGradientIn;

    /** @param shared whether all layers take turns with one set, because backward recomputes it */
    Activations(ModelShape shape, boolean shared) {
        this.shape = shape;
        this.shared = shared;
    }

    /** Makes room for a shard; whatever stood in the buffers is lost. */
    void reserve(int rows) {
        if (rows <= capacityRows) {
            return;
        }
        close();
        // Shards of later batches differ a little in size.
        capacityRows = rows + rows / 8 + 1L;
        int channels = shape.channels();
        for (int i = 0; i <= shape.layers(); i++) {
            residual.add(own(DType.F32, capacityRows, channels));
        }
        for (int layer = 0; layer < shape.layers(); layer++) {
            layers.add(
                    shared && layer > 0
                            ? layers.getFirst()
                            : new LayerActivations(
                                    own(DType.F32, capacityRows, channels),
                                    own(DType.F32, capacityRows),
                                    own(DType.BF16, capacityRows, channels),
                                    own(DType.BF16, capacityRows, channels)));
        }
        logits = own(DType.F32, capacityRows, ModelShape.VOCABULARY);
        finalInverseRms = own(DType.F32, capacityRows);
        residualGradient = own(DType.F32, capacityRows, channels);
        scratch = own(DType.F32, capacityRows, channels);
        otherScratch = own(DType.F32, capacityRows, channels);
        convGradientOut = own(DType.BF16, capacityRows, channels);
        convGradientIn = own(DType.BF16, capacityRows, channels);
    }

    private Tensor own(DType dtype, long... extents) {
        Tensor tensor = Tensor.zeros(dtype, extents);
        owned.add(tensor);
        return tensor;
    }

    /** The residual stream before layer {@code place}; after the last layer at {@code place = layers}. */
    long residual(int place) {
        return residual.get(place).address();
    }

    LayerActivations layer(int layer) {
        return layers.get(layer);
    }

    /** FP32 {@code [rows, 256]}. */
    long logits() {
        return logits.address();
    }

    /** FP32 {@code [rows]}. */
    long finalInverseRms() {
        return finalInverseRms.address();
    }

    /** Gradient of the residual stream, carried from the output back to the embedding. */
    long residualGradient() {
        return residualGradient.address();
    }

    /** Holds nothing from one stage of a layer to the next. */
    long scratch() {
        return scratch.address();
    }

    /** As {@link #scratch}. */
    long otherScratch() {
        return otherScratch.address();
    }

    /** BF16, dY of the convolution at hand. */
    Tensor convGradientOut() {
        return convGradientOut;
    }

    /** BF16, dX of the convolution at hand. */
    Tensor convGradientIn() {
        return convGradientIn;
    }

    @Override
    public void close() {
        owned.reversed().forEach(Tensor::close);
        owned.clear();
        residual.clear();
        layers.clear();
        capacityRows = -1;
    }
}
