package dev.kcp.core;

import dev.kcp.conv.LeafTable;
import dev.kcp.conv.ShardTables;
import dev.kcp.conv.ShardTables.SeamRows;
import dev.kcp.conv.tree.NodeKey;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * All that follows from a partition for one rank, on the host: edges, tables, and what the caller's history adds. Holds no
 * resource, so several contexts may share it; see {@link PlanCache}.
 */
final class RankPlan {
    private final Partition partition;
    private final HistoryCounts history;
    private final HaloPlan plan;
    private final HaloDirection forward;
    private final HaloDirection backward;
    private final ShardTables tables;
    private final ShardTables historyTables;
    private final int[] historyDocuments;
    private final int[] lastRows;
    private final long digest;
    private List<List<NodeKey>> nodes;

    /** Rows travel as this partition's documents need. */
    RankPlan(Partition partition, HistoryCounts history, int rank) {
        this(partition, history, rank, pieces(partition, history), partition.spans(rank, history));
    }

    private static Pieces pieces(Partition partition, HistoryCounts history) {
        history.check(partition.cuSeqlens());
        return partition.pieces().with(history);
    }

    /**
     * As if each rank's parts were all of one document, so that the rows that travel are those of every batch with the same
     * cuts; the tables name those that this batch's documents need.
     */
    static RankPlan ofCuts(Partition partition, Cuts cuts, int rank) {
        return new RankPlan(
                partition,
                HistoryCounts.NONE,
                rank,
                cuts.partition().pieces(),
                cuts.partition().spans(rank, HistoryCounts.NONE));
    }

    /**
     * @param travelling pieces whose rows travel
     * @param travellingSpans this rank's of them; where they are not the partition's own, each is cut into fragments
     */
    private RankPlan(
            Partition partition,
            HistoryCounts history,
            int rank,
            Pieces travelling,
            List<ShardTables.Span> travellingSpans) {
        this.partition = partition;
        this.history = history;
        digest = history.digest(partition.digest());
        Pieces pieces = pieces(partition, history);
        List<ShardTables.Span> spans = partition.spans(rank, history);
        SeamRows travellingSeams = SeamRows.of(travellingSpans);
        plan = HaloPlan.of(travelling);
        int[] senders = travelling.of(rank);
        forward = new HaloDirection(travelling, senders, plan.forward(), rank, (piece, offset) -> {
            int row = travelling.row[piece] + offset;
            return travelling.fragment[piece] == Pieces.HISTORY ? ~row : row;
        });
        backward = new HaloDirection(
                travelling,
                senders,
                plan.backward(),
                rank,
                (piece, offset) -> travellingSeams.headBegin()[travelling.fragment[piece]] + offset);
        int[] own = pieces.of(rank);
        int[] historyRow = none(spans.size());
        int[] owedRow = none(spans.size());
        Histories histories = new Histories();
        for (int piece : own) {
            if (pieces.fragment[piece] == Pieces.HISTORY) {
                histories.add(pieces, piece, rowsAfter(pieces, piece));
            } else {
                int at = ShardTables.HISTORY * pieces.fragment[piece];
                System.arraycopy(rowsBefore(pieces, piece), 0, historyRow, at, ShardTables.HISTORY);
                System.arraycopy(rowsAfter(pieces, piece), 0, owedRow, at, ShardTables.HISTORY);
            }
        }
        tables = ShardTables.of(
                partition.cuSeqlens().tokens(),
                spans,
                historyRow,
                owedRow,
                Cuts.seamRows(spans, travellingSpans, travellingSeams));
        historyTables = histories.tables(pieces.tokens());
        historyDocuments = histories.documents();
        lastRows = Arrays.stream(own)
                .filter(piece -> pieces.end[piece] == pieces.documentEnd[piece])
                .flatMap(piece -> Arrays.stream(new int[] {pieces.document[piece], pieces.fragment[piece]}))
                .toArray();
    }

    private static int[] none(int fragments) {
        int[] none = new int[ShardTables.HISTORY * fragments];
        Arrays.fill(none, -1);
        return none;
    }

    /** Pool rows of the tokens 1, 2, 3 before a piece. */
    private int[] rowsBefore(Pieces pieces, int piece) {
        int[] rows = none(1);
        int owner = piece;
        for (int i = 0; i < rows.length; i++) {
            int token = pieces.begin[piece] - 1 - i;
            if (token < pieces.documentBegin[piece]) {
                break;
            }
            while (pieces.begin[owner] > token) {
                owner--;
            }
            rows[i] = forward.poolRow(token, pieces.rank[owner]);
        }
        return rows;
    }

    /** Pool rows of the tokens 0, 1, 2 after a piece. */
    private int[] rowsAfter(Pieces pieces, int piece) {
        int[] rows = none(1);
        int owner = piece;
        for (int i = 0; i < rows.length; i++) {
            int token = pieces.end[piece] + i;
            if (token >= pieces.documentEnd[piece]) {
                break;
            }
            while (pieces.end[owner] <= token) {
                owner++;
            }
            rows[i] = backward.poolRow(token, pieces.rank[owner]);
        }
        return rows;
    }

    /** The caller's history rows of this rank as fragments that owe all of their dx. */
    private static final class Histories {
        private final List<ShardTables.Span> spans = new ArrayList<>();
        private final List<int[]> owedRows = new ArrayList<>();
        private final List<Integer> documents = new ArrayList<>();

        void add(Pieces pieces, int piece, int[] owed) {
            int begin = pieces.begin[piece];
            spans.add(new ShardTables.Span(begin, pieces.end[piece] - begin, begin, pieces.documentEnd[piece]));
            owedRows.add(owed);
            documents.add(pieces.document[piece]);
        }

        ShardTables tables(int tokens) {
            int[] owed = owedRows.stream().flatMapToInt(Arrays::stream).toArray();
            return ShardTables.of(tokens, spans, none(spans.size()), owed);
        }

        int[] documents() {
            return documents.stream().mapToInt(Integer::intValue).toArray();
        }
    }

    Partition partition() {
        return partition;
    }

    HistoryCounts history() {
        return history;
    }

    HaloPlan plan() {
        return plan;
    }

    HaloDirection forward() {
        return forward;
    }

    HaloDirection backward() {
        return backward;
    }

    ShardTables tables() {
        return tables;
    }

    /** One fragment per document whose caller's history this rank owns. */
    ShardTables historyTables() {
        return historyTables;
    }

    /** The documents of {@link #historyTables}' fragments. */
    int[] historyDocuments() {
        return historyDocuments;
    }

    /** Pairs of a document and the fragment of this rank that holds its last token. */
    int[] lastRows() {
        return lastRows;
    }

    long digest() {
        return digest;
    }

    /** Every rank's sums of the reduction tree. */
    synchronized List<List<NodeKey>> nodes() {
        if (nodes == null) {
            List<List<NodeKey>> all = new ArrayList<>();
            for (int rank = 0; rank < partition.ranks(); rank++) {
                all.add(LeafTable.of(partition.cuSeqlens().tokens(), partition.spans(rank, HistoryCounts.NONE))
                        .nodes());
            }
            nodes = List.copyOf(all);
        }
        return nodes;
    }
}
