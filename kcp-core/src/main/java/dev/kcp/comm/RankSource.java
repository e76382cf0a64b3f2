package dev.kcp.comm;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * Who may have started this process as a rank, the innermost launcher first: where several have left their variables, as
 * mpirun inside a Slurm batch job does, the first whose rank is there counts and the others are set aside.
 */
enum RankSource {
    /** kcp run, torchrun, and whoever sets the same variables. */
    ENV("the environment", "RANK", List.of("WORLD_SIZE"), List.of("LOCAL_RANK"), List.of("LOCAL_WORLD_SIZE")),
    /** mpirun of Open MPI. */
    OPENMPI(
            "Open MPI",
            "OMPI_COMM_WORLD_RANK",
            List.of("OMPI_COMM_WORLD_SIZE"),
            List.of("OMPI_COMM_WORLD_LOCAL_RANK"),
            List.of("OMPI_COMM_WORLD_LOCAL_SIZE")),
    /** Hydra, the launcher of MPICH and Intel MPI, and other PMI servers. */
    PMI(
            "PMI",
            "PMI_RANK",
            List.of("PMI_SIZE"),
            List.of("MPI_LOCALRANKID", "PMI_LOCAL_RANK"),
            List.of("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE")),
    /** srun; a batch script itself is no rank. */
    SLURM(
            "Slurm",
            "SLURM_PROCID",
            List.of("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
            List.of("SLURM_LOCALID"),
            List.of()),
    /** A PMIx server tells the number of ranks to programs that link its library only. */
    PMIX("PMIx", "PMIX_RANK", List.of("WORLD_SIZE"), List.of("PMIX_LOCAL_RANK"), List.of("PMIX_LOCAL_SIZE")),
    /** One rank in each pod of an indexed job; the manifest sets the number. */
    KUBERNETES("Kubernetes", "JOB_COMPLETION_INDEX", List.of("WORLD_SIZE"), List.of(), List.of());

    /** Set to a source's name, or to {@code none}, it overrides the order. */
    static final String CHOICE = "KCP_LAUNCHER";

    /** torchrun sets it to True where its own store listens at MASTER_ADDR and MASTER_PORT. */
    static final String AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE";

    private final String label;
    private final String rank;
    private final List<String> worldSize;
    private final List<String> localRank;
    private final List<String> localWorldSize;

    RankSource(String label, String rank, List<String> worldSize, List<String> localRank, List<String> localWorldSize) {
        this.label = label;
        this.rank = rank;
        this.worldSize = worldSize;
        this.localRank = localRank;
        this.localWorldSize = localWorldSize;
    }

    /** A rank's place; the local size is empty where the source does not tell it. */
    record Place(int rank, int worldSize, int localRank, OptionalInt localWorldSize) {}

    /**
     * The launcher that started this process.
     *
     * @return empty where there is none: this process is no rank
     */
    static Optional<RankSource> innermost(Map<String, String> env) {
        String choice = env.get(CHOICE);
        if (choice != null && !choice.isBlank() && !choice.strip().equalsIgnoreCase("auto")) {
            return chosen(choice.strip(), env);
        }
        for (RankSource source : values()) {
            if (source.isPresent(env)) {
                return Optional.of(source);
            }
        }
        return Optional.empty();
    }

    private static Optional<RankSource> chosen(String choice, Map<String, String> env) {
        if (choice.equalsIgnoreCase("none")) {
            return Optional.empty();
        }
        for (RankSource source : values()) {
            if (source.name().equalsIgnoreCase(choice)) {
                if (!env.containsKey(source.rank)) {
                    throw new IllegalArgumentException(
                            "no rank from the chosen launcher: " + CHOICE + "=" + choice + " " + source.rank + "=null");
                }
                return Optional.of(source);
            }
        }
        throw new IllegalArgumentException(
                "not one of auto, none, env, openmpi, pmi, slurm, pmix, kubernetes: " + CHOICE + "=" + choice);
    }

    private boolean isPresent(Map<String, String> env) {
        if (!env.containsKey(rank)) {
            return false;
        }
        // A batch script and the shell of salloc have a SLURM_PROCID of 0 too, but are no task of a step.
        return this != SLURM || env.containsKey("SLURM_STEP_ID") || !env.containsKey("SLURM_JOB_ID");
    }

    /**
     * Reads the source's variables.
     *
     * @throws IllegalArgumentException if the set is incomplete or impossible; the text ends in name=value
     */
    Place read(Map<String, String> env) {
        String sizeName = first(env, worldSize)
                .orElseThrow(() -> new IllegalArgumentException("a rank of " + label
                        + " without a world size, set " + worldSize.getLast() + ", or " + CHOICE
                        + "=none where this process is no rank: " + rank + "=" + env.get(rank) + " "
                        + worldSize.getLast() + "=null"));
        int me = number(env, rank);
        int size = number(env, sizeName);
        if (me < 0 || me >= size) {
            throw new IllegalArgumentException("no such rank: " + rank + "=" + me + " " + sizeName + "=" + size);
        }
        Optional<String> localName = first(env, localRank);
        OptionalInt localSize = localSize(env);
        int local = localName.isPresent() ? number(env, localName.get()) : this == KUBERNETES ? 0 : me;
        int most = localSize.orElse(size);
        if (local < 0 || local >= most || most > size) {
            throw new IllegalArgumentException("no such local rank: " + localName.orElse(rank) + "=" + local + " "
                    + first(env, localWorldSize).orElse("ranks of this node") + "=" + most + " " + sizeName + "="
                    + size);
        }
        return new Place(me, size, local, localSize);
    }

    private OptionalInt localSize(Map<String, String> env) {
        if (this == KUBERNETES) {
            return OptionalInt.of(1);
        }
        if (this == SLURM) {
            return SlurmTasks.onThisNode(env);
        }
        Optional<String> name = first(env, localWorldSize);
        return name.isPresent() ? OptionalInt.of(number(env, name.get())) : OptionalInt.empty();
    }

    /** Whether the launcher itself listens at the master's port, so that rank 0 cannot. */
    boolean isMasterPortHeld(Map<String, String> env) {
        return this == ENV && "true".equalsIgnoreCase(env.get(AGENT_STORE));
    }

    /** A name for the job that its ranks share and no other job of this machine has at the same time. */
    Optional<String> jobName(Map<String, String> env) {
        return switch (this) {
            case OPENMPI ->
                first(env, List.of("PMIX_NAMESPACE", "OMPI_MCA_orte_ess_jobid", "OMPI_MCA_ess_base_jobid"))
                        .map(name -> "openmpi-" + env.get(name));
            case SLURM ->
                env.containsKey("SLURM_JOB_ID") && env.containsKey("SLURM_STEP_ID")
                        ? Optional.of("slurm-" + env.get("SLURM_JOB_ID") + "." + env.get("SLURM_STEP_ID"))
                        : Optional.empty();
            case PMI -> parentProcess().map(parent -> "pmi-" + parent);
            case ENV ->
                isMasterPortHeld(env)
                        ? Optional.of("torchrun-" + env.get("TORCHELASTIC_RUN_ID") + "-" + env.get("MASTER_PORT") + "-"
                                + env.getOrDefault("TORCHELASTIC_RESTART_COUNT", "0"))
                        : Optional.empty();
            case PMIX, KUBERNETES -> Optional.empty();
        };
    }

    /** All ranks that one PMI server starts on one host have it for their parent. */
    private static Optional<String> parentProcess() {
        return ProcessHandle.current()
                .parent()
                .map(parent -> parent.pid() + "-"
                        + parent.info()
                                .startInstant()
                                .map(at -> at.toEpochMilli())
                                .orElse(0L));
    }

    /** {@code Open MPI (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE)}, and which variables were set aside. */
    String describe(Map<String, String> env) {
        StringBuilder text = new StringBuilder(label)
                .append(" (")
                .append(rank)
                .append(", ")
                .append(first(env, worldSize).orElse(worldSize.getFirst()))
                .append(')');
        List<String> aside = new ArrayList<>();
        for (RankSource other : values()) {
            if (other != this && other.isPresent(env) && !(other == PMIX && this == OPENMPI)) {
                aside.add(other.rank + "=" + env.get(other.rank));
            }
        }
        return aside.isEmpty() ? text.toString() : text + "; set aside: " + String.join(" ", aside);
    }

    private static Optional<String> first(Map<String, String> env, List<String> names) {
        return names.stream().filter(env::containsKey).findFirst();
    }

    static int number(Map<String, String> env, String name) {
        try {
            return Integer.parseInt(env.get(name).strip());
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException("not a number: " + name + "=" + env.get(name), e);
        }
    }
}
