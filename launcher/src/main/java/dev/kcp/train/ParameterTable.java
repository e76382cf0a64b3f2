package dev.kcp.train;

import java.util.ArrayList;
import java.util.List;

/**
 * The model's parameters and their order in one flat FP32 buffer:
 *
 * <pre>
 * embedding | gain, w1, w2 of each layer | final gain || taps, bias of each layer
 * </pre>
 *
 * Gradients before the double bar are summed over ranks in one call; those behind it by the convolution's own tree.
 * Every parameter starts on a cache line; the gap behind it stays zero.
 */
public final class ParameterTable {
    private static final int ALIGNMENT_ELEMENTS = 16;

    /** One layer's parameters; w1 and w2 are {@code [channels in, channels out]}. */
    public record LayerParameters(Parameter gain, Parameter w1, Parameter w2, Parameter taps, Parameter bias) {}

    private final ModelShape shape;
    private final List<Parameter> all = new ArrayList<>();
    private final List<LayerParameters> layers = new ArrayList<>();
    private final Parameter embedding;
    private final Parameter finalGain;
    private final long summedElements;
    private long nextOffset;

    /** Places every parameter of a model of this size. */
    public ParameterTable(ModelShape shape) {
        this.shape = shape;
        int channels = shape.channels();
        embedding = add("embedding", ModelShape.VOCABULARY, channels, true);
        Parameter[][] dense = new Parameter[shape.layers()][];
        for (int layer = 0; layer < shape.layers(); layer++) {
            String prefix = "layer" + layer + ".";
            dense[layer] = new Parameter[] {
                add(prefix + "gain", 1, channels, false),
                add(prefix + "w1", channels, channels, true),
                add(prefix + "w2", channels, channels, true)
            };
        }
        finalGain = add("final.gain", 1, channels, false);
        summedElements = nextOffset;
        for (int layer = 0; layer < shape.layers(); layer++) {
            String prefix = "layer" + layer + ".conv.";
            Parameter taps = add(prefix + "taps", channels, ModelShape.TAPS, false);
            Parameter bias = add(prefix + "bias", 1, channels, false);
            layers.add(new LayerParameters(dense[layer][0], dense[layer][1], dense[layer][2], taps, bias));
        }
    }

    private Parameter add(String name, int rows, int columns, boolean decayed) {
        Parameter parameter = new Parameter(name, nextOffset, rows, columns, decayed);
        all.add(parameter);
        long end = nextOffset + parameter.elements();
        nextOffset = (end + ALIGNMENT_ELEMENTS - 1) / ALIGNMENT_ELEMENTS * ALIGNMENT_ELEMENTS;
        return parameter;
    }

    /** The size of the model. */
    public ModelShape shape() {
        return shape;
    }

    /** Token vectors, {@code [256, channels]}; also the output matrix. */
    public Parameter embedding() {
        return embedding;
    }

    /** The parameters of a layer, counted from 0. */
    public LayerParameters layer(int layer) {
        return layers.get(layer);
    }

    /** Gain of the norm before the output. */
    public Parameter finalGain() {
        return finalGain;
    }

    /** All parameters in buffer order. */
    public List<Parameter> all() {
        return List.copyOf(all);
    }

    /** Elements of the buffer's first part, whose gradients are summed over ranks in one call. */
    public long summedElements() {
        return summedElements;
    }

    /** Elements of the whole buffer, gaps included. */
    public long bufferElements() {
        return nextOffset;
    }

    /** Numbers that are trained. */
    public long parameters() {
        return all.stream().mapToLong(Parameter::elements).sum();
    }
}
