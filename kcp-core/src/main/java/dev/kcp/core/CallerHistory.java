package dev.kcp.core;

import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.conv.ShardTables;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Tensor;
import java.util.Arrays;

/** What rows before and after a batch add to a call: their shapes, the last rows, and the gradient of the first. */
final class CallerHistory {
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

    /** Copies the last three rows of each document whose last token is here; they lie in x or in the pool. */
    static void writeFinal(KcpContext context, ConvArguments one, Tensor pool) {
        Tensor to = one.finalHistory();
        RankPlan plan = context.rankPlan();
        ShardTables tables = plan.tables();
        int[] last = plan.lastRows();
        for (int i = 0; i < last.length; i += 2) {
            int fragment = last[i + 1];
            int length = tables.end(fragment) - tables.begin(fragment);
            for (int back = 1; back <= HistoryCounts.ROWS; back++) {
                int poolRow = back <= length ? -1 : tables.historyRow(fragment, back - length);
                long from = back <= length
                        ? one.x().rowAddress(tables.end(fragment) - back)
                        : poolRow < 0 ? 0 : pool.rowAddress(poolRow);
                putRow(to, last[i], HistoryCounts.ROWS - back, from);
            }
        }
        for (int d = 0; d < context.partition().cuSeqlens().documents(); d++) {
            if (context.communicator().rank() == 0
                    && context.partition().cuSeqlens().length(d) == 0) {
                int absent = HistoryCounts.ROWS - context.history().rows(d);
                for (int j = 0; j < HistoryCounts.ROWS; j++) {
                    putRow(to, d, j, j < absent ? 0 : one.initialHistory().rowAddress(row(d, j)));
                }
            }
        }
    }

    private static void putRow(Tensor to, int document, int j, long from) {
        long bytes = to.columns() * to.dtype().bytes();
        if (from == 0) {
            HostMemory.zero(to.rowAddress(row(document, j)), bytes);
        } else {
            HostMemory.copy(from, to.rowAddress(row(document, j)), bytes);
        }
    }

    private static long row(int document, int j) {
        return (long) HistoryCounts.ROWS * document + j;
    }

    /** dx of the caller's history rows: each is an owed row without a g of its own. */
    static void writeGradient(KcpContext context, Operands in, Tensor received, Tensor dHistory) {
        if (context.historyShard() == null) {
            return;
        }
        ConvEngine engine = context.engine();
        ShardTables tables = context.rankPlan().historyTables();
        int[] documents = context.rankPlan().historyDocuments();
        try (Tensor noTail = engine.allocate(DType.F32, context.historyShard().tailRows(), in.channels());
                Tensor rows = engine.allocate(DType.BF16, tables.rows(), in.channels())) {
            engine.owed(context.historyShard(), in, noTail, received, rows);
            for (int f = 0; f < documents.length; f++) {
                int count = tables.end(f) - tables.begin(f);
                for (int j = 0; j < HistoryCounts.ROWS; j++) {
                    int back = HistoryCounts.ROWS - j;
                    putRow(dHistory, documents[f], j, back > count ? 0 : rows.rowAddress(tables.end(f) - back));
                }
            }
        }
    }
}
