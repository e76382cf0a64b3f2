package dev.kcp.core;

import static dev.kcp.conv.Tolerance.assertSameBits;

import dev.kcp.comm.Communicator;
import dev.kcp.conv.ConvCase;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvOptions;
import dev.kcp.conv.Gradients;
import dev.kcp.conv.ReferenceConv;
import dev.kcp.conv.Tolerance;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

/**
 * Documents whose first tokens were in an earlier batch, joined: each document's history rows and tokens end to end, with
 * zeros for dy of the history rows.
 *
 * @param all the joined batch
 * @param lengths tokens of each document in this batch
 * @param history rows of each document that the caller gives
 */
public record JoinedBatch(ConvCase all, int[] lengths, int[] history) implements AutoCloseable {
    private static final int ROWS = HistoryCounts.ROWS;

    /** Random numbers, history of 0 to 3 rows, with or without a bias. */
    public static JoinedBatch random(Random random, int[] lengths) {
        int[] history = new int[lengths.length];
        int[] joined = new int[lengths.length];
        for (int d = 0; d < lengths.length; d++) {
            history[d] = random.nextInt(ROWS + 1);
            joined[d] = lengths[d] + history[d];
        }
        DType bias = random.nextBoolean() ? DType.BF16 : null;
        ConvCase all = ConvCase.random(random.nextLong(), 8 * (1 + random.nextInt(3)), DType.F32, bias, joined);
        for (int d = 0; d < lengths.length; d++) {
            for (int row = all.begin(d); row < all.begin(d) + history[d]; row++) {
                for (int c = 0; c < all.channels(); c++) {
                    ConvCase.set(all.dy(), row, c, 0);
                }
            }
        }
        return new JoinedBatch(all, lengths, history);
    }

    /** Rank of a document's first or last token; rank 0 has what belongs to documents without tokens. */
    static int owner(Partition partition, int document, boolean first) {
        CuSeqlens cuSeqlens = partition.cuSeqlens();
        if (cuSeqlens.length(document) == 0) {
            return 0;
        }
        return partition
                .placeOf(first ? cuSeqlens.begin(document) : cuSeqlens.end(document) - 1)
                .rank();
    }

    /** The rows of this batch, of a tensor of the joined one. */
    private Tensor batch(Tensor joined) {
        Tensor rows = Tensor.zeros(DType.BF16, Arrays.stream(lengths).sum(), all.channels());
        int to = 0;
        for (int d = 0; d < lengths.length; d++) {
            copy(joined, all.begin(d) + history[d], rows, to, lengths[d]);
            to += lengths[d];
        }
        return rows;
    }

    /** Each document's history rows, the invalid ones filled with bytes that must not matter. */
    private Tensor initial(Tensor joined, byte filler) {
        Tensor rows = Tensor.zeros(DType.BF16, lengths.length, ROWS, all.channels());
        rows.segment().fill(filler);
        for (int d = 0; d < lengths.length; d++) {
            copy(joined, all.begin(d), rows, (long) ROWS * d + ROWS - history[d], history[d]);
        }
        return rows;
    }

    /** The last three rows of each joined document, zeros before it. */
    private Tensor last() {
        Tensor rows = Tensor.zeros(DType.BF16, lengths.length, ROWS, all.channels());
        for (int d = 0; d < lengths.length; d++) {
            int count = Math.min(ROWS, history[d] + lengths[d]);
            copy(all.x(), all.begin(d) + history[d] + lengths[d] - count, rows, (long) ROWS * d + ROWS - count, count);
        }
        return rows;
    }

    private static void copy(Tensor from, long begin, Tensor to, long toBegin, long count) {
        if (count > 0) {
            HostMemory.copy(
                    from.rowAddress(begin),
                    to.rowAddress(toBegin),
                    count * from.columns() * from.dtype().bytes());
        }
    }

    /** Forward and backward of this batch with the caller's history have the bits of the joined documents on one rank. */
    public void assertParity(Sharded.Place place, Partition partition, ConvOptions options) {
        try (Sharded expected = Sharded.alone(all, options)) {
            place.run(partition.ranks(), (communicator, engine) -> {
                onRank(place, communicator, engine, partition, options, expected);
                return null;
            });
        }
    }

    private void onRank(
            Sharded.Place place,
            Communicator communicator,
            ConvEngine engine,
            Partition partition,
            ConvOptions options,
            Sharded expected) {
        int rank = communicator.rank();
        HistoryCounts counts = HistoryCounts.of(history);
        KcpConv1d conv = new KcpConv1d("layer0", options);
        try (KcpContext context = new KcpContext(partition, counts, communicator, engine, null);
                Tensor x = place.toDevice(engine, shard(partition, rank, all.x()));
                Tensor dy = place.toDevice(engine, shard(partition, rank, all.dy()));
                Tensor weight = place.toDevice(engine, copyOf(all.weight()));
                Tensor bias = all.bias() == null ? null : place.toDevice(engine, copyOf(all.bias()));
                Tensor initial = counts.isNone() ? null : place.toDevice(engine, initial(all.x(), (byte) 0x7F));
                Tensor y = place.toDevice(engine, room(partition.tokens(rank)));
                Tensor dx = place.toDevice(engine, room(partition.tokens(rank)));
                Tensor finalRows = place.toDevice(engine, historyRoom());
                Tensor dHistory = place.toDevice(engine, historyRoom())) {
            ConvArguments in = new ConvArguments(x, weight, bias, y, initial, finalRows);
            try (Saved saved = conv.forward(context, List.of(in), null);
                    PartialGradients sums = conv.backward(saved, List.of(new ConvGradients(dy, dx, dHistory)))
                            .getFirst()) {
                assertSums(place, engine, conv.reduceGradients(List.of(sums), DType.F32), options);
            }
            Communicator host = communicator.host();
            assertGathered("y", host, partition, place.toHost(engine, y), expected.y());
            assertGathered("dx", host, partition, place.toHost(engine, dx), expected.dx());
            assertHistories(partition, rank, place.toHost(engine, finalRows), place.toHost(engine, dHistory), expected);
        }
    }

    private void assertSums(Sharded.Place place, ConvEngine engine, Gradients reduced, ConvOptions options) {
        try (Tensor dweight = place.toHost(engine, reduced.dweight());
                Tensor dbias = reduced.dbias() == null ? null : place.toHost(engine, reduced.dbias())) {
            Tolerance.assertSums(dweight, dbias, ReferenceConv.run(all, options.policy()), options.policy());
        }
    }

    private void assertGathered(String name, Communicator host, Partition partition, Tensor local, Tensor joined) {
        try (local;
                Tensor packed = host.rank() == 0 ? room(Arrays.stream(lengths).sum()) : null;
                Tensor wanted = batch(joined)) {
            Shards.gather(host, partition, name, local, packed);
            if (packed != null) {
                assertSameBits(name, packed, wanted);
            }
        }
    }

    private void assertHistories(Partition partition, int rank, Tensor finalRows, Tensor dHistory, Sharded expected) {
        try (finalRows;
                dHistory;
                Tensor last = last();
                Tensor wanted = initial(expected.dx(), (byte) 0)) {
            for (int d = 0; d < lengths.length; d++) {
                long begin = (long) ROWS * d;
                long end = begin + ROWS;
                if (owner(partition, d, false) == rank) {
                    assertSameBits("finalHistory", finalRows.rows(begin, end), last.rows(begin, end));
                }
                if (history[d] > 0 && lengths[d] > 0 && owner(partition, d, true) == rank) {
                    assertSameBits("dHistory", dHistory.rows(begin, end), wanted.rows(begin, end));
                }
            }
        }
    }

    private Tensor shard(Partition partition, int rank, Tensor joined) {
        Tensor local = room(partition.tokens(rank));
        try (Tensor packed = batch(joined)) {
            Shards.take(partition, rank, packed, local);
        }
        return local;
    }

    private Tensor room(long rows) {
        Tensor room = Tensor.zeros(DType.BF16, rows, all.channels());
        room.segment().fill((byte) 0xFF);
        return room;
    }

    private Tensor historyRoom() {
        return Tensor.zeros(DType.BF16, lengths.length, ROWS, all.channels());
    }

    private static Tensor copyOf(Tensor host) {
        Tensor copy = Tensor.zeros(host.dtype(), host.shape());
        copy.segment().copyFrom(host.segment());
        return copy;
    }

    @Override
    public void close() {
        all.close();
    }
}
