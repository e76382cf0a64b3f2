package dev.kcp.core;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;

/** Random batches and partitions: many tiny documents, ranks without tokens, fragments in any order. */
public final class Geometry {
    private Geometry() {}

    public static int[] lengths(Random random) {
        int[] lengths = new int[1 + random.nextInt(12)];
        for (int d = 0; d < lengths.length; d++) {
            int kind = random.nextInt(6);
            lengths[d] = kind < 4 ? random.nextInt(5) : kind == 4 ? 60 + random.nextInt(10) : random.nextInt(301);
        }
        return lengths;
    }

    public static Partition partition(Random random, CuSeqlens cuSeqlens, int ranks) {
        int kind = random.nextInt(5);
        if (kind < 3) {
            int align = new int[] {1, 1, 3, 64}[random.nextInt(4)];
            return Partition.of(Layout.values()[kind], cuSeqlens, ranks, align);
        }
        return fragments(random, cuSeqlens, ranks, kind == 4);
    }

    /** Fragments cut anywhere, or at multiples of 64 only, dealt to ranks at random and shuffled. */
    public static Partition fragments(Random random, CuSeqlens cuSeqlens, int ranks, boolean treeExact) {
        List<List<Fragment>> lists = new ArrayList<>();
        for (int rank = 0; rank < ranks; rank++) {
            lists.add(new ArrayList<>());
        }
        int rank = random.nextInt(ranks);
        int begin = 0;
        for (int token = 0; token < cuSeqlens.tokens(); token++) {
            int document = cuSeqlens.documentOf(token);
            boolean documentEnds = token + 1 == cuSeqlens.end(document);
            boolean cut = treeExact ? (token + 1) % 64 == 0 && random.nextBoolean() : random.nextInt(4) == 0;
            if (documentEnds || cut) {
                int offset = begin - cuSeqlens.begin(document);
                lists.get(rank).add(new Fragment(document, offset, token + 1 - begin));
                begin = token + 1;
            }
            if (cut) {
                rank = random.nextInt(ranks);
            }
        }
        for (List<Fragment> list : lists) {
            if (random.nextInt(3) == 0) {
                list.add(new Fragment(0, 0, 0));
            }
            Collections.shuffle(list, random);
        }
        return Partition.ofFragments(cuSeqlens, lists);
    }
}
