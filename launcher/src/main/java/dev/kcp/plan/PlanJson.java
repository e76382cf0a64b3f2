package dev.kcp.plan;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.kcp.core.CuSeqlens;
import dev.kcp.core.Fragment;
import dev.kcp.core.HaloPlan;
import java.util.List;
import java.util.function.LongUnaryOperator;

/**
 * A plan as JSON, nothing left out: {@code cu_seqlens} and {@code fragments} in the form of
 * {@link dev.kcp.core.PartitionJson}, so that it reads this text too; then totals by rank, and both directions' edges with the
 * packed tokens whose rows travel.
 */
public final class PlanJson {
    private PlanJson() {}

    /** One line of JSON. */
    public static String write(PlanReport report) {
        ObjectNode json = new ObjectMapper().createObjectNode();
        CuSeqlens cuSeqlens = report.partition().cuSeqlens();
        json.put("layout", report.layout());
        json.put("align", report.align());
        json.put("channels", report.channels());
        json.put("documents", cuSeqlens.documents());
        json.put("tokens", cuSeqlens.tokens());
        json.put("world", report.ranks().size());
        json.put("tree_exact", report.partition().isTreeExact());
        json.put("imbalance", report.imbalance());
        json.put("exchange_bytes", report.exchangeBytes());
        ArrayNode offsets = json.putArray("cu_seqlens").add(0);
        for (int document = 0; document < cuSeqlens.documents(); document++) {
            offsets.add(cuSeqlens.end(document));
        }
        ArrayNode fragments = json.putArray("fragments");
        ArrayNode ranks = json.putArray("ranks");
        for (PlanReport.RankTotals rank : report.ranks()) {
            ArrayNode list = fragments.addArray();
            for (Fragment fragment : report.partition().fragments(rank.rank())) {
                list.addArray().add(fragment.document()).add(fragment.offset()).add(fragment.length());
            }
            ranks.addObject()
                    .put("rank", rank.rank())
                    .put("tokens", rank.tokens())
                    .put("forward_bytes", rank.forwardBytes())
                    .put("backward_bytes", rank.backwardBytes())
                    .put("saved_bytes", rank.savedBytes())
                    .put("tree_bytes", rank.treeBytes());
        }
        edges(
                json.putArray("forward"),
                report.halo().forward(),
                rows -> HaloPlan.forwardBytes(rows, report.channels()));
        edges(
                json.putArray("backward"),
                report.halo().backward(),
                rows -> HaloPlan.backwardBytes(rows, report.channels()));
        return json.toString();
    }

    private static void edges(ArrayNode array, List<HaloPlan.Edge> edges, LongUnaryOperator bytes) {
        for (HaloPlan.Edge edge : edges) {
            ObjectNode node = array.addObject();
            node.put("from", edge.from()).put("to", edge.to()).put("rows", edge.tokens().length);
            node.put("bytes", bytes.applyAsLong(edge.tokens().length));
            ArrayNode tokens = node.putArray("tokens");
            for (int token : edge.tokens()) {
                tokens.add(token);
            }
        }
    }
}
