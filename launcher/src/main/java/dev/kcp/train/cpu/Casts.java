package dev.kcp.train.cpu;

/** Casts at the convolution's border. Element counts are multiples of 8, as rows of channels are. */
final class Casts {
    private static final int BF16_BYTES = 2;

    private Casts() {}

    static void toBf16(long from, long to, long elements) {
        for (long i = 0; i < elements; i += Lanes.COUNT) {
            Lanes.storeBf16(Lanes.load(from + i * Float.BYTES), to + i * BF16_BYTES);
        }
    }

    static void toFloat(long from, long to, long elements) {
        for (long i = 0; i < elements; i += Lanes.COUNT) {
            Lanes.store(Lanes.loadBf16(from + i * BF16_BYTES), to + i * Float.BYTES);
        }
    }
}
