package dev.kcp.bench;

/**
 * A packed batch to measure: documents of equal length, the last one longer where S does not divide.
 *
 * @param tokens S, at least the documents
 * @param channels C
 * @param documents at least 1
 */
public record BenchShape(int tokens, int channels, int documents) {
    /** @throws IllegalArgumentException if C is no multiple of 8 or there are more documents than tokens */
    public BenchShape {
        if (documents < 1 || tokens < documents || channels < 8 || channels % 8 != 0) {
            throw new IllegalArgumentException("a shape has C a multiple of 8 and from 1 to S documents: S=" + tokens
                    + " C=" + channels + " documents=" + documents);
        }
    }

    /** Reads {@code SxC} or {@code SxCxDOCUMENTS}. */
    public static BenchShape parse(String text) {
        String[] parts = text.split("x");
        try {
            if (parts.length == 2 || parts.length == 3) {
                return new BenchShape(
                        Integer.parseInt(parts[0]),
                        Integer.parseInt(parts[1]),
                        parts.length == 3 ? Integer.parseInt(parts[2]) : 1);
            }
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException("a shape is SxC or SxCxDOCUMENTS, as 8192x4096x16: shape=" + text, e);
        }
        throw new IllegalArgumentException("a shape is SxC or SxCxDOCUMENTS, as 8192x4096x16: shape=" + text);
    }

    int[] offsets() {
        int[] offsets = new int[documents + 1];
        for (int d = 0; d < documents; d++) {
            offsets[d] = d * (tokens / documents);
        }
        offsets[documents] = tokens;
        return offsets;
    }
}
