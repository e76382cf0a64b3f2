package dev.kcp.train;

import java.nio.charset.StandardCharsets;
import java.util.Random;

/** Small corpora. */
final class Texts {
    private Texts() {}

    /** Documents of 1 to about 300 letters. */
    static TextCorpus documents(long seed, int documents) {
        Random random = new Random(seed);
        StringBuilder text = new StringBuilder();
        for (int document = 0; document < documents; document++) {
            int length = 1 + random.nextInt(1 << random.nextInt(1, 9));
            for (int i = 0; i < length; i++) {
                text.append((char) ('a' + random.nextInt(26)));
            }
            text.append("\n\n");
        }
        return TextCorpus.of(text.toString().getBytes(StandardCharsets.US_ASCII));
    }
}
