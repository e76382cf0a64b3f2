package dev.kcp.launcher;

import java.security.SecureRandom;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/**
 * What one job's ranks find in their environment: torchrun's variables, and kcp's own for the rendezvous.
 *
 * @param masterPort see {@link MasterPort}; kcp ranks meet at the store instead
 * @param jobId random, so that ranks of another job are told apart
 * @param secret random, known to this job's ranks only
 */
record JobEnvironment(int worldSize, String masterHost, int masterPort, String jobId, String secret) {
    static final String LOOPBACK = "127.0.0.1";

    /** Every variable that the launcher sets and a user may not. */
    static final Set<String> NAMES = Set.of(
            "RANK",
            "LOCAL_RANK",
            "WORLD_SIZE",
            "LOCAL_WORLD_SIZE",
            "MASTER_ADDR",
            "MASTER_PORT",
            "KCP_STORE",
            "KCP_JOB_ID",
            "KCP_SECRET",
            "KCP_RESTART");

    /** The user's choice among launchers, which this launcher settles, and options of this launcher. */
    private static final String CHOICE = "KCP_LAUNCHER";

    /** What the {@code kcp} script keeps from the JVM that it starts, behind this prefix and a "=" where it was set. */
    private static final String GIVEN = "KCP_GIVEN_";

    /**
     * This process's variables as far as ranks are to have them: nothing that is meant for their launcher, and what its
     * user has set in place of what its JVM needed.
     */
    static Map<String, String> inherited(Map<String, String> own) {
        Map<String, String> variables = new HashMap<>(own);
        variables
                .keySet()
                .removeIf(name ->
                        name.equals(CHOICE) || name.startsWith(EnvironmentDefaults.PREFIX) || name.startsWith(GIVEN));
        own.forEach((name, given) -> {
            if (name.startsWith(GIVEN)) {
                String original = name.substring(GIVEN.length());
                if (given.startsWith("=")) {
                    variables.put(original, given.substring(1));
                } else {
                    variables.remove(original);
                }
            }
        });
        return variables;
    }

    /** A new job with fresh names. */
    static JobEnvironment create(int worldSize, int masterPort) {
        SecureRandom random = new SecureRandom();
        return new JobEnvironment(worldSize, LOOPBACK, masterPort, hex(random, 8), hex(random, 16));
    }

    /** The variables of one rank; {@code storePort} is where the launcher's rendezvous store listens. */
    Map<String, String> of(int rank, int storePort) {
        Map<String, String> variables = new LinkedHashMap<>();
        variables.put("RANK", Integer.toString(rank));
        variables.put("LOCAL_RANK", Integer.toString(rank));
        variables.put("WORLD_SIZE", Integer.toString(worldSize));
        variables.put("LOCAL_WORLD_SIZE", Integer.toString(worldSize));
        variables.put("MASTER_ADDR", masterHost);
        variables.put("MASTER_PORT", Integer.toString(masterPort));
        variables.put("KCP_STORE", LOOPBACK + ":" + storePort);
        variables.put("KCP_JOB_ID", jobId);
        variables.put("KCP_SECRET", secret);
        return variables;
    }

    /** Leaves the secret out. */
    @Override
    public String toString() {
        return "JobEnvironment[worldSize=" + worldSize + ", master=" + masterHost + ":" + masterPort + ", jobId="
                + jobId + "]";
    }

    private static String hex(SecureRandom random, int bytes) {
        byte[] drawn = new byte[bytes];
        random.nextBytes(drawn);
        return HexFormat.of().formatHex(drawn);
    }
}
