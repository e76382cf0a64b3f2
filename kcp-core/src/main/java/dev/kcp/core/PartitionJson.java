package dev.kcp.core;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.kcp.KcpException;
import java.util.ArrayList;
import java.util.List;

/**
 * Partitions as JSON: {@code {"cu_seqlens": [0, 5, 9], "fragments": [[[0, 0, 5]], [[1, 0, 4]]]}}, where every rank has a list
 * of [document, offset, length].
 */
public final class PartitionJson {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private PartitionJson() {}

    /** The partition as one line of JSON. */
    public static String write(Partition partition) {
        ObjectNode json = MAPPER.createObjectNode();
        ArrayNode offsets = json.putArray("cu_seqlens");
        for (int offset : partition.cuSeqlens().offsets()) {
            offsets.add(offset);
        }
        ArrayNode ranks = json.putArray("fragments");
        for (int rank = 0; rank < partition.ranks(); rank++) {
            ArrayNode list = ranks.addArray();
            for (Fragment fragment : partition.fragments(rank)) {
                list.addArray().add(fragment.document()).add(fragment.offset()).add(fragment.length());
            }
        }
        return json.toString();
    }

    /**
     * Reads what {@link #write} wrote.
     *
     * @throws KcpException BAD_DATA if the text is no partition, with what is wrong
     */
    public static Partition read(String text) {
        try {
            JsonNode json = MAPPER.readTree(text);
            JsonNode offsets = json.path("cu_seqlens");
            JsonNode ranks = json.path("fragments");
            if (!offsets.isArray() || !ranks.isArray()) {
                throw bad("not an object with the arrays cu_seqlens and fragments", null);
            }
            int[] cuSeqlens = new int[offsets.size()];
            for (int i = 0; i < cuSeqlens.length; i++) {
                cuSeqlens[i] = number(offsets.get(i));
            }
            return Partition.ofFragments(CuSeqlens.of(cuSeqlens), fragments(ranks));
        } catch (JsonProcessingException e) {
            throw bad(e.getOriginalMessage(), e);
        } catch (IllegalArgumentException e) {
            throw bad(e.getMessage(), e);
        }
    }

    /**
     * Reads a partition's fragments alone: {@code [[[0, 0, 5]], [[1, 0, 4]]]}.
     *
     * @return one list per rank
     * @throws KcpException BAD_DATA if the text is no such list
     */
    public static List<List<Fragment>> readFragments(String text) {
        try {
            JsonNode ranks = MAPPER.readTree(text);
            if (!ranks.isArray()) {
                throw bad("not one list of fragments per rank: found=" + ranks, null);
            }
            return fragments(ranks);
        } catch (JsonProcessingException e) {
            throw bad(e.getOriginalMessage(), e);
        } catch (IllegalArgumentException e) {
            throw bad(e.getMessage(), e);
        }
    }

    private static List<List<Fragment>> fragments(JsonNode ranks) {
        List<List<Fragment>> fragments = new ArrayList<>();
        for (JsonNode list : ranks) {
            List<Fragment> own = new ArrayList<>();
            for (JsonNode one : list) {
                if (!one.isArray() || one.size() != 3) {
                    throw bad("a fragment is [document, offset, length]: fragment=" + one, null);
                }
                own.add(new Fragment(number(one.get(0)), number(one.get(1)), number(one.get(2))));
            }
            fragments.add(own);
        }
        return fragments;
    }

    private static int number(JsonNode node) {
        if (!node.isIntegralNumber() || !node.canConvertToInt()) {
            throw bad("not a whole number: value=" + node, null);
        }
        return node.intValue();
    }

    private static KcpException bad(String what, Throwable cause) {
        return new KcpException(KcpException.Code.BAD_DATA, "no partition: " + what, cause);
    }
}
