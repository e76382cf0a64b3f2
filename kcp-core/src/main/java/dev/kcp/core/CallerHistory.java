package dev.kcp.core;

import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.RowOps;
import dev.kcp.conv.ShardTables;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** What rows before and after a batch add to a call: their shapes, the last rows, and the gradient of the first. */
final class CallerHistory {
    /** Sources of the moves of last rows. */
    private static final int X = 0;

    private static final int POOL = 1;
    private static final int GIVEN = 2;

    private CallerHistory() {}

    static void check(KcpContext context, ConvArguments one) {
        boolean wanted = !context.history().isNone();
        if (wanted != (one.initialHistory() != null)) {
            throw new IllegalArgumentException("initialHistory is given exactly where the context has history rows: "
                    + "initialHistory=" + one.initialHistory() + " history=" + context.history());
        }
        checkShape(context, one.x(), "initialHistory", one.initialHistory());
        checkShape(context, one.x(), "finalHistory", one.finalHistory());
    }

    static void checkShape(KcpContext context, Tensor x, String name, Tensor rows) {
        long documents = context.partition().cuSeqlens().documents();
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
    }

    /**
     * Moves of the last three rows of each document whose last token is here; they lie in x, in the pool, or, of an empty
     * document, in the caller's own rows.
     */
    static int[] finalMoves(RankPlan plan, int rank) {
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
        return flat(moves);
    }

    /** Writes the last rows of documents that end here. */
    static void writeFinal(KcpContext context, ConvArguments one, Tensor pool) {
        context.engine()
                .rowOps()
                .move(
                        context.finalMoves(),
                        Arrays.asList(one.x(), pool, one.initialHistory()),
                        List.of(one.finalHistory()),
                        0);
    }

    /** Moves of dx of the caller's history rows from the rows of their fragments to {@code [documents, 3, C]}. */
    static int[] gradientMoves(RankPlan plan) {
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
        return flat(moves);
    }

    /** dx of the caller's history rows: each is an owed row without a g of its own. */
    static void writeGradient(KcpContext context, Operands in, Tensor received, Tensor dHistory) {
        if (context.historyShard() == null) {
            return;
        }
        ConvEngine engine = context.engine();
        ShardTables tables = context.rankPlan().historyTables();
        try (Tensor noTail = engine.allocate(DType.F32, context.historyShard().tailRows(), in.channels());
                Tensor rows = engine.allocate(DType.BF16, tables.rows(), in.channels())) {
            engine.rowOps().zero(noTail);
            engine.owed(context.historyShard(), in, noTail, received, rows);
            engine.rowOps().move(context.historyGradientMoves(), List.of(rows), List.of(dHistory), 0);
        }
    }

    private static int row(int document, int j) {
        return HistoryCounts.ROWS * document + j;
    }

    private static int[] flat(List<int[]> moves) {
        return moves.stream().flatMapToInt(Arrays::stream).toArray();
    }
}
