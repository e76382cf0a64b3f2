package dev.kcp.comm;

import java.util.Map;
import java.util.OptionalInt;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Slurm's count of tasks for each node of a step, as in {@code 4(x2),3}: two nodes with four, one with three. */
final class SlurmTasks {
    private static final Pattern RUN = Pattern.compile("(\\d{1,6})(?:\\(x(\\d{1,6})\\))?");

    private SlurmTasks() {}

    /**
     * Tasks of the step on this node.
     *
     * @return empty where Slurm did not say
     * @throws IllegalArgumentException if the list cannot be read or has no such node
     */
    static OptionalInt onThisNode(Map<String, String> env) {
        String name =
                env.containsKey("SLURM_STEP_TASKS_PER_NODE") ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE";
        String list = env.get(name);
        if (list == null || !env.containsKey("SLURM_NODEID")) {
            return OptionalInt.empty();
        }
        int node = RankSource.number(env, "SLURM_NODEID");
        int begin = 0;
        for (String run : list.strip().split(",")) {
            Matcher matcher = RUN.matcher(run);
            if (!matcher.matches()) {
                throw new IllegalArgumentException("no list of tasks per node: " + name + "=" + list);
            }
            int nodes = matcher.group(2) == null ? 1 : Integer.parseInt(matcher.group(2));
            if (node >= begin && node < begin + nodes) {
                return OptionalInt.of(Integer.parseInt(matcher.group(1)));
            }
            begin += nodes;
        }
        throw new IllegalArgumentException("no such node in the step: SLURM_NODEID=" + node + " " + name + "=" + list);
    }
}
