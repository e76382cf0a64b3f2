package dev.kcp.train;

import dev.kcp.core.CuSeqlens;
import java.util.Arrays;
import java.util.Random;

/**
 * Packs documents end to end into batches of exactly {@code tokens} tokens, without end. A document of n bytes gives
 * n + 1 tokens: it is read as {@code 0, b0, .., b(n-1)} and predicts {@code b0, .., b(n-1), 0}. Each epoch takes every
 * document once, in an order that depends on the seed and the epoch alone. A document that does not fit is cut; its rest
 * begins the next batch as a document of its own, so that no token is left out or seen twice in an epoch.
 */
public final class Packer {
    // Odd, with well mixed bits: neighbouring epochs get unrelated orders.
    private static final long EPOCH_STRIDE = 0x9E3779B97F4A7C15L;

    private final TextCorpus corpus;
    private final int tokens;
    private final long seed;
    private final int[] order;
    private long epoch = -1;
    private int next;
    private int taken;

    /**
     * Begins with the first epoch.
     *
     * @param tokens tokens of a batch, at least 1
     * @throws IllegalArgumentException if there is no document or no token to pack
     */
    public Packer(TextCorpus corpus, int tokens, long seed) {
        if (tokens < 1 || corpus.documents() == 0) {
            throw new IllegalArgumentException(
                    "nothing to pack: tokens=" + tokens + " documents=" + corpus.documents());
        }
        this.corpus = corpus;
        this.tokens = tokens;
        this.seed = seed;
        this.order = new int[corpus.documents()];
        this.next = order.length;
    }

    /**
     * Goes on where another packer of the same corpus and seed stood.
     *
     * @throws IllegalArgumentException if the corpus has no such place
     */
    public Packer(TextCorpus corpus, int tokens, long seed, DataPosition from) {
        this(corpus, tokens, seed);
        if (from.document() > order.length) {
            throw noSuchPlace(from);
        }
        epoch = from.epoch() - 1;
        beginEpoch();
        next = from.document();
        taken = from.token();
        if (taken > 0 && (next == order.length || taken > corpus.bytes(order[next]))) {
            throw noSuchPlace(from);
        }
    }

    private IllegalArgumentException noSuchPlace(DataPosition from) {
        return new IllegalArgumentException("the corpus has no such place: epoch=" + from.epoch() + " document="
                + from.document() + " token=" + from.token() + " documents=" + order.length);
    }

    /** Where the next batch begins. */
    public DataPosition position() {
        return epoch < 0 ? DataPosition.START : new DataPosition(epoch, next, taken);
    }

    /** The next batch. */
    public PackedBatch next() {
        byte[] inputs = new byte[tokens];
        byte[] targets = new byte[tokens];
        int[] lengths = new int[16];
        int documents = 0;
        for (int filled = 0; filled < tokens; ) {
            if (next == order.length) {
                beginEpoch();
            }
            int length = take(order[next], inputs, targets, filled);
            if (documents == lengths.length) {
                lengths = Arrays.copyOf(lengths, 2 * documents);
            }
            lengths[documents++] = length;
            filled += length;
        }
        return new PackedBatch(inputs, targets, CuSeqlens.ofLengths(Arrays.copyOf(lengths, documents)));
    }

    /** Epochs begun so far. */
    public long epochs() {
        return epoch + 1;
    }

    private int take(int document, byte[] inputs, byte[] targets, int filled) {
        int bytes = corpus.bytes(document);
        int length = (int) Math.min(tokens - filled, bytes + 1L - taken);
        int end = taken + length;
        // inputs[i] is byte taken + i - 1, targets[i] is byte taken + i; 0 stands where there is no such byte.
        int inputBegin = Math.max(taken - 1, 0);
        corpus.copy(document, inputBegin, end - 1, inputs, filled + inputBegin - (taken - 1));
        corpus.copy(document, taken, Math.min(end, bytes), targets, filled);
        taken = end;
        if (end > bytes) {
            next++;
            taken = 0;
        }
        return length;
    }

    private void beginEpoch() {
        epoch++;
        next = 0;
        Random random = new Random(seed + epoch * EPOCH_STRIDE);
        Arrays.setAll(order, i -> i);
        for (int i = order.length - 1; i > 0; i--) {
            int other = random.nextInt(i + 1);
            int kept = order[i];
            order[i] = order[other];
            order[other] = kept;
        }
    }
}
