package dev.kcp.comm;

import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/**
 * Who this process is in its job, as its launcher said.
 *
 * @param rank this process, from 0
 * @param localRank this process among those of its node, from 0
 * @param worldSize processes in the job
 * @param localWorldSize processes of this node
 * @param masterHost host of rank 0, or null where there is a store
 * @param masterPort a port of that host on which rank 0 may listen, or 0 where there is a store
 * @param store the launcher's rendezvous store, or null: then rank 0 hosts one at the master's address
 * @param jobId tells jobs apart that meet at one address; empty if the launcher gave none
 * @param secret what ranks of the job know and strangers do not; empty if the launcher gave none
 */
public record RankInfo(
        int rank,
        int localRank,
        int worldSize,
        int localWorldSize,
        String masterHost,
        int masterPort,
        HostAndPort store,
        String jobId,
        String secret) {
    public RankInfo {
        Objects.requireNonNull(jobId, "jobId");
        Objects.requireNonNull(secret, "secret");
        if (rank < 0 || rank >= worldSize) {
            throw new IllegalArgumentException("no such rank: RANK=" + rank + " WORLD_SIZE=" + worldSize);
        }
        if (localRank < 0 || localRank >= localWorldSize || localWorldSize > worldSize) {
            throw new IllegalArgumentException("no such local rank: LOCAL_RANK=" + localRank + " LOCAL_WORLD_SIZE="
                    + localWorldSize + " WORLD_SIZE=" + worldSize);
        }
        if (store == null && (masterHost == null || masterHost.isBlank() || masterPort < 1 || masterPort > 65535)) {
            throw new IllegalArgumentException("neither a store nor a master to meet at: KCP_STORE=null MASTER_ADDR="
                    + masterHost + " MASTER_PORT=" + masterPort);
        }
    }

    /** Where the ranks meet: the launcher's store, or the one that rank 0 hosts. */
    public HostAndPort meetingPlace() {
        return store != null ? store : new HostAndPort(masterHost, masterPort);
    }

    /** The secret stays out of logs. */
    @Override
    public String toString() {
        return "RankInfo[rank=" + rank + " localRank=" + localRank + " worldSize=" + worldSize + " localWorldSize="
                + localWorldSize + " meetingPlace=" + meetingPlace() + " jobId=" + jobId + "]";
    }

    /**
     * Reads RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, KCP_STORE, KCP_JOB_ID and
     * KCP_SECRET. The local pair defaults to RANK and WORLD_SIZE.
     *
     * @return empty where RANK is absent: this process is no rank of a job
     * @throws IllegalArgumentException if the set is incomplete or impossible; the text gives name=value
     */
    public static Optional<RankInfo> fromEnvironment(Map<String, String> env) {
        if (!env.containsKey("RANK")) {
            return Optional.empty();
        }
        int rank = number(env, "RANK");
        if (!env.containsKey("WORLD_SIZE")) {
            throw new IllegalArgumentException(
                    "a rank without a world size: RANK=" + env.get("RANK") + " WORLD_SIZE=null");
        }
        int worldSize = number(env, "WORLD_SIZE");
        int localRank = env.containsKey("LOCAL_RANK") ? number(env, "LOCAL_RANK") : rank;
        int localWorldSize = env.containsKey("LOCAL_WORLD_SIZE") ? number(env, "LOCAL_WORLD_SIZE") : worldSize;
        return Optional.of(new RankInfo(
                rank,
                localRank,
                worldSize,
                localWorldSize,
                env.get("MASTER_ADDR"),
                env.containsKey("MASTER_PORT") ? number(env, "MASTER_PORT") : 0,
                env.containsKey("KCP_STORE") ? store(env.get("KCP_STORE")) : null,
                env.getOrDefault("KCP_JOB_ID", ""),
                env.getOrDefault("KCP_SECRET", "")));
    }

    private static int number(Map<String, String> env, String name) {
        try {
            return Integer.parseInt(env.get(name).strip());
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException("not a number: " + name + "=" + env.get(name), e);
        }
    }

    private static HostAndPort store(String text) {
        try {
            return HostAndPort.parse(text);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("not host:port: KCP_STORE=" + text, e);
        }
    }
}
