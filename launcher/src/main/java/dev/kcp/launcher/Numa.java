package dev.kcp.launcher;

import dev.kcp.KcpException;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Binds ranks to the machine's NUMA nodes, by the program numactl. */
final class Numa {
    private final Path numactl;
    private final List<Integer> nodes;

    private Numa(Path numactl, List<Integer> nodes) {
        this.numactl = numactl;
        this.nodes = nodes;
    }

    /**
     * Looks for numactl and the nodes.
     *
     * @throws KcpException MISSING_DEVICE if either is missing
     */
    static Numa ofThisMachine(String path) {
        Path numactl = Programs.find("numactl", path)
                .orElseThrow(() -> new KcpException(
                        KcpException.Code.MISSING_DEVICE,
                        "--numa needs the program numactl (package numactl), which is not on PATH: PATH=" + path));
        List<Integer> nodes = new ArrayList<>();
        try (DirectoryStream<Path> entries =
                Files.newDirectoryStream(Path.of("/sys/devices/system/node"), "node[0-9]*")) {
            entries.forEach(node ->
                    nodes.add(Integer.parseInt(node.getFileName().toString().substring("node".length()))));
        } catch (IOException e) {
            throw new KcpException(
                    KcpException.Code.MISSING_DEVICE,
                    "--numa needs the kernel's list of NUMA nodes: folder=/sys/devices/system/node",
                    e);
        }
        nodes.sort(null);
        return new Numa(numactl, nodes);
    }

    /** The command line under numactl: neighbouring ranks share a node, and every node gets about as many. */
    List<String> bind(List<String> command, int rank, int ranks) {
        int node = node(nodes, rank, ranks);
        List<String> bound =
                new ArrayList<>(List.of(numactl.toString(), "--cpunodebind=" + node, "--preferred=" + node, "--"));
        bound.addAll(command);
        return bound;
    }

    static int node(List<Integer> nodes, int rank, int ranks) {
        return nodes.get((int) ((long) rank * nodes.size() / ranks));
    }
}
