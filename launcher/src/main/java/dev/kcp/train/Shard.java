package dev.kcp.train;

import dev.kcp.core.Fragment;
import dev.kcp.core.Partition;

/** The input and target tokens of one rank, its fragments end to end. Buffers are kept, and grown when too small. */
final class Shard {
    private byte[] inputs = new byte[0];
    private byte[] targets = new byte[0];
    private int tokens;

    /** Takes this rank's tokens out of the packed batch. */
    void take(PackedBatch batch, Partition partition, int rank) {
        tokens = partition.tokens(rank);
        if (tokens > inputs.length) {
            inputs = new byte[tokens];
            targets = new byte[tokens];
        }
        int row = 0;
        for (Fragment fragment : partition.fragments(rank)) {
            int begin = partition.packedBegin(fragment);
            System.arraycopy(batch.inputs(), begin, inputs, row, fragment.length());
            System.arraycopy(batch.targets(), begin, targets, row, fragment.length());
            row += fragment.length();
        }
    }

    int tokens() {
        return tokens;
    }

    /** The input token of a local row, 0 to 255. */
    int input(int row) {
        return Byte.toUnsignedInt(inputs[row]);
    }

    /** The target token of a local row, 0 to 255. */
    int target(int row) {
        return Byte.toUnsignedInt(targets[row]);
    }
}
