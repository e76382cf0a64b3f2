package dev.kcp.comm;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** How the ranks of a communicator learn each other's addresses. */
final class Rendezvous {
    private Rendezvous() {}

    /**
     * Publishes this rank's address and waits for those of all ranks.
     *
     * @param communicator name that is used once per job
     * @return addresses in rank order
     * @throws KcpException RENDEZVOUS if the deadline passes, naming every rank that is missing
     */
    static List<HostAndPort> meet(
            StoreClient store, String communicator, RankInfo me, HostAndPort listening, Deadline until) {
        byte[] text = listening.toString().getBytes(StandardCharsets.UTF_8);
        if (!store.set(key(communicator, me.rank()), text)) {
            throw new KcpException(
                    Code.RENDEZVOUS,
                    "another process is this rank already: rank=" + me.rank() + " communicator=" + communicator
                            + " store=" + me.meetingPlace());
        }
        List<HostAndPort> all = new ArrayList<>();
        List<Integer> missing = new ArrayList<>();
        for (int rank = 0; rank < me.worldSize(); rank++) {
            Optional<byte[]> address = store.get(key(communicator, rank), until);
            if (address.isPresent()) {
                all.add(HostAndPort.parse(new String(address.get(), StandardCharsets.UTF_8)));
            } else {
                missing.add(rank);
            }
        }
        if (!missing.isEmpty()) {
            throw missing(missing, "announced themselves", communicator, me, until);
        }
        return all;
    }

    static KcpException missing(List<Integer> ranks, String what, String communicator, RankInfo me, Deadline until) {
        return new KcpException(
                Code.RENDEZVOUS,
                "not all ranks " + what + " in time: missingRanks=" + ranks + " worldSize=" + me.worldSize()
                        + " deadlineMillis=" + until.limit().toMillis() + " communicator=" + communicator + " store="
                        + me.meetingPlace());
    }

    private static String key(String communicator, int rank) {
        return communicator + "/" + rank;
    }
}
