package dev.kcp.core;

/**
 * Channels cut evenly over ranks, between multiples of a unit.
 *
 * @param channels a multiple of the unit
 * @param unit channels that stay together
 * @param ranks so many slices
 */
record ChannelSlices(long channels, long unit, int ranks) {
    ChannelSlices {
        if (unit < 1 || channels % unit != 0) {
            throw new IllegalArgumentException(
                    "slices are whole units of channels: channels=" + channels + " unit=" + unit);
        }
    }

    long begin(int rank) {
        return channels / unit * rank / ranks * unit;
    }

    long width(int rank) {
        return begin(rank + 1) - begin(rank);
    }
}
