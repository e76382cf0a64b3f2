package dev.kcp.conv;

/** A shard's tables where the programs of one engine read them. Closed by whoever asked the engine for it. */
public interface Shard extends AutoCloseable {
    /** Local rows that belong to fragments; of a batch that the host cannot see into, all rows of x. */
    int rows();

    /** Rows that the history pool has at least. */
    int historyRows();

    /** Rows of g from elsewhere that {@link ConvEngine#owed} is given at least. */
    int receivedRows();

    /** Head rows of all continuing fragments: the first up to three of each. */
    int headRows();

    /** Tail rows of all owing fragments: the last up to three of each. */
    int tailRows();

    /** Sums of the reduction tree that {@link ConvEngine#main} writes for it. */
    int nodeCount();

    @Override
    void close();
}
