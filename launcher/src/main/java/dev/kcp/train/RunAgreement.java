package dev.kcp.train;

import dev.kcp.KcpException;
import dev.kcp.comm.Communicator;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * Makes sure that all ranks were started with the same settings and read the same text. Ranks that another launcher
 * started on several hosts may not have been; training would then go on with different batches.
 */
final class RunAgreement {
    private RunAgreement() {}

    /**
     * Compares with rank 0; collective.
     *
     * @param settings all that the ranks must have in common beside the text
     * @throws KcpException with {@code DISAGREEMENT}, on every rank the same, naming the first rank that differs
     */
    static void check(String settings, TextCorpus corpus, Communicator communicator) {
        String mine = settings + " documents=" + corpus.documents() + " bytes=" + corpus.bytes() + " textDigest="
                + Long.toHexString(corpus.digest());
        List<String> all = communicator.allGather("run settings", mine.getBytes(StandardCharsets.UTF_8)).stream()
                .map(bytes -> new String(bytes, StandardCharsets.UTF_8))
                .toList();
        for (int rank = 1; rank < all.size(); rank++) {
            if (!all.get(rank).equals(all.getFirst())) {
                throw new KcpException(
                        KcpException.Code.DISAGREEMENT,
                        "ranks were started with different settings or text: rank0={" + all.getFirst() + "} rank" + rank
                                + "={" + all.get(rank) + "}");
            }
        }
    }
}
