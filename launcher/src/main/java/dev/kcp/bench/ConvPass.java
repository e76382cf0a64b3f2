package dev.kcp.bench;

/** A half of the single-rank op that can be timed. */
public enum ConvPass {
    /** y. */
    FORWARD("forward", 4),
    /** dx and the sums for dweight. */
    BACKWARD("backward", 6);

    private final String label;
    private final int bytesOfElement;

    ConvPass(String label, int bytesOfElement) {
        this.label = label;
        this.bytesOfElement = bytesOfElement;
    }

    /** The name in reports. */
    String label() {
        return label;
    }

    /** Least bytes to read and write for each element of x. */
    int bytesOfElement() {
        return bytesOfElement;
    }
}
