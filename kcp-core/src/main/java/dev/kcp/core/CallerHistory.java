package dev.kcp.core;

import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.RowOps;
import dev.kcp.conv.Shard;
import dev.kcp.conv.ShardTables;
import dev.kcp.tensor.CloseStack;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * What rows before and after one context's batch add to its calls: their shapes, the last rows, and the gradient of the
 * first. The device's tables are made when they are first used.
 */
final class CallerHistory implements AutoCloseable {
    /** Sources of the moves of last rows. */
    private static final int X = 0;

    private static final int POOL = 1;
    private static final int GIVEN = 2;

    /** Rows are moved by so many bytes at a time on a GPU; the CPU asks for the same. */
    private static final int ROW_START_BYTES = 16;

    private final ConvEngine engine;
    private final RankPlan plan;
    private final int rank;
    /** The rows as a shard, or null where this rank owns none. */
    private final Shard shard;

    private RowOps.Table finalMoves;
    private RowOps.Table gradientMoves;

    CallerHistory(ConvEngine engine, RankPlan plan, int rank) {
        this.engine = engine;
        this.plan = plan;
        this.rank = rank;
        shard = plan.historyDocuments().length == 0 ? null : engine.shard(plan.historyTables());
    }

    /** @throws IllegalArgumentException if a call's rows before or after the batch have the wrong shape or type */
    void check(ConvArguments one) {
        boolean wanted = !plan.history().isNone();
        if (wanted != (one.initialHistory() != null)) {
            throw new IllegalArgumentException("initialHistory is given exactly where the context has history rows: "
                    + "initialHistory=" + one.initialHistory() + " history=" + plan.history());
        }
        checkShape(one.x(), "initialHistory", one.initialHistory());
        checkShape(one.x(), "finalHistory", one.finalHistory());
    }

    /** Checks a tensor like initialHistory, which may be null. */
    void checkShape(Tensor x, String name, Tensor rows) {
        long documents = plan.partition().cuSeqlens().documents();
        if (rows != null
                && (rows.dtype() != DType.BF16
                        || rows.rank() != 3
                        || rows.extent(0) != documents
                        || rows.extent(1) != HistoryCounts.ROWS
                        || rows.columns() != x.columns()
                        || !rows.device().equals(x.device()))) {
            throw new IllegalArgumentException(name + " must be BF16 [documents, 3, C] on the device of x: dtype="
                    + rows.dtype() + " shape=" + Arrays.toString(rows.shape()) + " documents=" + documents + " C="
                    + x.columns() + " device=" + rows.device());
        }
        if (rows != null && rows.elements() > 0 && rows.address() % ROW_START_BYTES != 0) {
            throw new IllegalArgumentException(name + " must start at a multiple of " + ROW_START_BYTES
                    + " bytes: address=0x" + Long.toHexString(rows.address()));
        }
    }

    /**
     * Moves of the last three rows of each document whose last token is here; they lie in x, in the pool, or, of an empty
     * document, in the caller's own rows.
     */
    private synchronized RowOps.Table finalMoves() {
        if (finalMoves != null) {
            return finalMoves;
        }
        ShardTables tables = plan.tables();
        CuSeqlens cuSeqlens = plan.partition().cuSeqlens();
        List<int[]> moves = new ArrayList<>();
        int[] last = plan.lastRows();
        for (int i = 0; i < last.length; i += 2) {
            int fragment = last[i + 1];
            int length = tables.end(fragment) - tables.begin(fragment);
            for (int back = 1; back <= HistoryCounts.ROWS; back++) {
                int poolRow = back <= length ? -1 : tables.historyRow(fragment, back - length);
                int source = back <= length ? X : poolRow < 0 ? RowOps.ZEROS : POOL;
                int row = back <= length ? tables.end(fragment) - back : poolRow;
                moves.add(new int[] {source, row, 0, row(last[i], HistoryCounts.ROWS - back)});
            }
        }
        for (int d = 0; rank == 0 && d < cuSeqlens.documents(); d++) {
            int absent = HistoryCounts.ROWS - plan.history().rows(d);
            for (int j = 0; cuSeqlens.length(d) == 0 && j < HistoryCounts.ROWS; j++) {
                moves.add(new int[] {j < absent ? RowOps.ZEROS : GIVEN, row(d, j), 0, row(d, j)});
            }
        }
        finalMoves = table(moves);
        return finalMoves;
    }

    /**
     * Writes the last rows of documents that end here.
     *
     * @param pool history rows that the forward received
     */
    void writeFinal(ConvArguments one, Tensor pool) {
        List<Tensor> sources = Arrays.asList(one.x(), pool, one.initialHistory());
        engine.rowOps().move(finalMoves(), sources, List.of(one.finalHistory()), 0);
    }

    /** Moves of dx of the caller's history rows from the rows of their fragments to {@code [documents, 3, C]}. */
    private synchronized RowOps.Table gradientMoves() {
        if (gradientMoves != null) {
            return gradientMoves;
        }
        ShardTables tables = plan.historyTables();
        int[] documents = plan.historyDocuments();
        List<int[]> moves = new ArrayList<>();
        for (int f = 0; f < documents.length; f++) {
            int count = tables.end(f) - tables.begin(f);
            for (int j = 0; j < HistoryCounts.ROWS; j++) {
                int back = HistoryCounts.ROWS - j;
                moves.add(new int[] {
                    back > count ? RowOps.ZEROS : 0, back > count ? 0 : tables.end(f) - back, 0, row(documents[f], j)
                });
            }
        }
        gradientMoves = table(moves);
        return gradientMoves;
    }

    /**
     * Writes dx of the caller's history rows: each is an owed row without a g of its own.
     *
     * @param received g rows that the backward received
     */
    void writeGradient(Operands in, Tensor received, Tensor dHistory) {
        if (shard == null) {
            return;
        }
        try (Tensor noTail = engine.allocate(DType.F32, shard.tailRows(), in.channels());
                Tensor rows = engine.allocate(DType.BF16, plan.historyTables().rows(), in.channels())) {
            engine.rowOps().zero(noTail);
            engine.owed(shard, in, noTail, received, rows);
            engine.rowOps().move(gradientMoves(), List.of(rows), List.of(dHistory), 0);
        }
    }

    private static int row(int document, int j) {
        return HistoryCounts.ROWS * document + j;
    }

    private RowOps.Table table(List<int[]> moves) {
        return engine.rowOps().moves(moves.stream().flatMapToInt(Arrays::stream).toArray());
    }

    @Override
    public synchronized void close() {
        try (CloseStack owned = new CloseStack()) {
            owned.push(shard);
            owned.push(gradientMoves);
            owned.push(finalMoves);
        } finally {
            gradientMoves = null;
            finalMoves = null;
        }
    }
}
