package dev.kcp.train;

/**
 * Size of the model.
 *
 * @param layers layers of norm, linear, convolution and linear, at least 1
 * @param channels width of the residual stream, a positive multiple of 8
 */
public record ModelShape(int layers, int channels) {
    /** Tokens are bytes. */
    public static final int VOCABULARY = 256;

    /** Taps of the convolution. */
    public static final int TAPS = 4;

    /** @throws IllegalArgumentException if there is no layer, or channels are no positive multiple of 8 */
    public ModelShape {
        if (layers < 1) {
            throw new IllegalArgumentException("at least one layer is needed: layers=" + layers);
        }
        if (channels < 8 || channels % 8 != 0) {
            throw new IllegalArgumentException("channels must be a positive multiple of 8: channels=" + channels);
        }
    }
}
