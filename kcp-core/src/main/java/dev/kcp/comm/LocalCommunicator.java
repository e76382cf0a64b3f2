package dev.kcp.comm;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;

/** Communicators whose ranks are threads of one JVM. */
public final class LocalCommunicator {
    private LocalCommunicator() {}

    /**
     * Makes a group.
     *
     * @param ranks ranks in the group, at least 1
     * @param deadline bound of every wait
     * @return one communicator per rank, in rank order; each is closed by its user
     */
    public static List<Communicator> group(int ranks, Duration deadline) {
        return List.copyOf(ends(ranks, deadline));
    }

    static List<GroupCommunicator> ends(int ranks, Duration deadline) {
        if (ranks < 1) {
            throw new IllegalArgumentException("a group needs a rank: ranks=" + ranks);
        }
        List<Mesh> meshes = new ArrayList<>();
        for (int rank = 0; rank < ranks; rank++) {
            Mesh mesh = new Mesh(rank, ranks, "local", deadline);
            mesh.attach(new LocalWire(rank, meshes));
            meshes.add(mesh);
        }
        int[] all = IntStream.range(0, ranks).toArray();
        return meshes.stream()
                .map(mesh -> mesh.open(GroupCommunicator.WORLD, all))
                .toList();
    }
}
