package dev.kcp.comm;

import java.nio.file.InvalidPathException;
import java.nio.file.Path;
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
 * @param masterHost host of rank 0, or null where there is a store or a file
 * @param masterPort a port of that host on which rank 0 may listen, or 0 where there is a store or a file
 * @param store the launcher's rendezvous store, or null: then rank 0 hosts one at the master's address, or says in the
 *     file where it does
 * @param file where rank 0 writes the address of its store, or null; counts where there is no store
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
        RendezvousFile file,
        String jobId,
        String secret) {
    /**
     * @throws IllegalArgumentException if a rank is out of range or there is no place to meet; the text names the variables
     */
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
        if (store == null
                && file == null
                && (masterHost == null || masterHost.isBlank() || masterPort < 1 || masterPort > 65535)) {
            throw new IllegalArgumentException(
                    "ranks have no place to meet, set MASTER_ADDR and MASTER_PORT (1 to 65535)"
                            + " or KCP_RENDEZVOUS_FILE: MASTER_ADDR=" + masterHost + " MASTER_PORT=" + masterPort);
        }
    }

    /** A rank that meets the others at a store or at rank 0's address. */
    public RankInfo(
            int rank,
            int localRank,
            int worldSize,
            int localWorldSize,
            String masterHost,
            int masterPort,
            HostAndPort store,
            String jobId,
            String secret) {
        this(rank, localRank, worldSize, localWorldSize, masterHost, masterPort, store, null, jobId, secret);
    }

    /** Where the ranks meet: the launcher's store, or the one that rank 0 hosts; null where only a file will tell. */
    public HostAndPort meetingPlace() {
        return store != null ? store : file != null ? null : new HostAndPort(masterHost, masterPort);
    }

    /** The same rank, now that the store of its job is known. */
    RankInfo at(HostAndPort newStore, String newJobId, String newSecret) {
        return new RankInfo(
                rank,
                localRank,
                worldSize,
                localWorldSize,
                masterHost,
                masterPort,
                newStore,
                null,
                newJobId,
                newSecret);
    }

    /** The secret stays out of logs. */
    @Override
    public String toString() {
        return "RankInfo[rank=" + rank + " localRank=" + localRank + " worldSize=" + worldSize + " localWorldSize="
                + localWorldSize + " meetingPlace=" + (store == null && file != null ? file : meetingPlace())
                + " jobId=" + jobId + "]";
    }

    /**
     * Finds out which launcher started this process, by the table in {@link RankSource}, and where its ranks meet: at
     * KCP_STORE, by the file KCP_RENDEZVOUS_FILE, or at MASTER_ADDR and MASTER_PORT. Ranks that Open MPI, Hydra, Slurm or
     * torchrun started all on one host need none of these: they meet by a file that only this user can read. KCP_JOB_ID
     * and KCP_SECRET are read where they are set.
     *
     * @return empty where this process is no rank of a job: no launcher, or another launcher's job of one process
     * @throws IllegalArgumentException if the set is incomplete or impossible; the text gives name=value
     */
    public static Optional<RankInfo> fromEnvironment(Map<String, String> env) {
        Optional<RankSource> source = RankSource.innermost(env);
        if (source.isEmpty()) {
            return Optional.empty();
        }
        RankSource.Place place = source.get().read(env);
        // A job of one, as in the shell of "srun --pty", is an ordinary process that may start ranks itself.
        if (source.get() != RankSource.ENV && place.worldSize() == 1) {
            return Optional.empty();
        }
        String master = env.get("MASTER_ADDR");
        int port = env.containsKey("MASTER_PORT") ? RankSource.number(env, "MASTER_PORT") : 0;
        HostAndPort store = env.containsKey("KCP_STORE") ? store(env.get("KCP_STORE")) : null;
        RendezvousFile file = env.containsKey("KCP_RENDEZVOUS_FILE")
                ? new RendezvousFile(path(env.get("KCP_RENDEZVOUS_FILE")), false)
                : null;
        boolean isPortHeld = source.get().isMasterPortHeld(env);
        if (store == null && file == null && (isPortHeld || (master == null && port == 0))) {
            file = ofOneHost(source.get(), place, env).orElse(null);
            if (file == null && isPortHeld) {
                throw new IllegalArgumentException("torchrun itself listens at the master port, so rank 0 cannot; start"
                        + " torchrun with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 or set KCP_RENDEZVOUS_FILE: "
                        + RankSource.AGENT_STORE + "=" + env.get(RankSource.AGENT_STORE) + " MASTER_PORT=" + port);
            }
        }
        if (file != null && file.oneHost()) {
            master = null;
            port = 0;
        }
        return Optional.of(new RankInfo(
                place.rank(),
                place.localRank(),
                place.worldSize(),
                place.localWorldSize().orElse(place.worldSize()),
                master,
                port,
                store,
                file,
                env.getOrDefault("KCP_JOB_ID", ""),
                env.getOrDefault("KCP_SECRET", "")));
    }

    /**
     * A line for people: which launcher's variables counted and which were set aside. Empty for ranks of {@code kcp run},
     * where there was nothing to find out, and where this process is no rank.
     */
    public static Optional<String> describeLauncher(Map<String, String> env) {
        if (env.containsKey("KCP_STORE")) {
            return Optional.empty();
        }
        return fromEnvironment(env)
                .map(me -> me.worldSize() + " ranks started by "
                        + RankSource.innermost(env).orElseThrow().describe(env));
    }

    private static Optional<RendezvousFile> ofOneHost(
            RankSource source, RankSource.Place place, Map<String, String> env) {
        boolean isOneHost =
                place.localWorldSize().isPresent() && place.localWorldSize().getAsInt() == place.worldSize();
        return isOneHost ? source.jobName(env).map(RendezvousFile::ofJob) : Optional.empty();
    }

    private static HostAndPort store(String text) {
        try {
            return HostAndPort.parse(text);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("not host:port: KCP_STORE=" + text, e);
        }
    }

    private static Path path(String text) {
        try {
            Path path = Path.of(text);
            if (!path.isAbsolute() || path.getFileName() == null) {
                throw new IllegalArgumentException("not the absolute path of a file: KCP_RENDEZVOUS_FILE=" + text);
            }
            return path;
        } catch (InvalidPathException e) {
            throw new IllegalArgumentException("not a path: KCP_RENDEZVOUS_FILE=" + text, e);
        }
    }
}
