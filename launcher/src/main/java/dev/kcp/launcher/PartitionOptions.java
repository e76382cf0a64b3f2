package dev.kcp.launcher;

import dev.kcp.KcpException;
import dev.kcp.core.CuSeqlens;
import dev.kcp.core.Fragment;
import dev.kcp.core.Layout;
import dev.kcp.core.Partition;
import dev.kcp.core.PartitionJson;
import dev.kcp.files.FileFailures;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** How a batch is cut over ranks; for every command to which the user gives one batch. */
final class PartitionOptions {
    @Option(
            names = "--layout",
            defaultValue = "contiguous",
            paramLabel = "LAYOUT",
            description = "contiguous, zigzag or zigzagPerDocument (${DEFAULT-VALUE}).")
    private String layout;

    @Option(
            names = "--fragments",
            paramLabel = "FILE",
            description = "JSON instead of a layout: for every rank its list of [document, offset, length]; without "
                    + "--world, as many ranks as lists.")
    private Path fragments;

    @Option(
            names = "--align",
            defaultValue = "1",
            paramLabel = "N",
            description = "Cut at multiples of N tokens; 64 fixes the bits of dweight for all N (${DEFAULT-VALUE}).")
    private int align;

    @Spec(Spec.Target.MIXEE)
    private CommandSpec command;

    /**
     * Looks at the options alone.
     *
     * @throws IllegalArgumentException if the layout is none, cuts cannot be aligned so, or --fragments would leave another
     *     option without effect
     */
    void check() {
        Layout.parse(layout);
        OptionRange.atLeast("--align", align, 1);
        for (String option : List.of("--layout", "--align")) {
            if (fragments != null && command.commandLine().getParseResult().hasMatchedOption(option)) {
                throw new IllegalArgumentException(
                        "--fragments takes the place of " + option + ", leave one out: fragments=" + fragments);
            }
        }
    }

    /** Ranks where nothing else says how many. */
    int ranks() {
        return fragments == null ? 1 : lists().size();
    }

    /**
     * The batch as it is cut.
     *
     * @throws KcpException BAD_DATA if the file of fragments is no partition of it
     */
    Partition partition(CuSeqlens cuSeqlens, int ranks) {
        check();
        if (fragments == null) {
            return Partition.of(Layout.parse(layout), cuSeqlens, ranks, align);
        }
        List<List<Fragment>> lists = lists();
        if (lists.size() != ranks) {
            throw new IllegalArgumentException(
                    "--fragments has lists for another number of ranks: lists=" + lists.size() + " world=" + ranks);
        }
        try {
            return Partition.ofFragments(cuSeqlens, lists);
        } catch (IllegalArgumentException e) {
            throw bad(e.getMessage(), e);
        }
    }

    private List<List<Fragment>> lists() {
        try {
            return PartitionJson.readFragments(Files.readString(fragments));
        } catch (IOException e) {
            throw bad(Files.exists(fragments) ? "cannot be read: " + FileFailures.reason(e) : "does not exist", e);
        } catch (KcpException e) {
            throw bad(e.getMessage(), e);
        }
    }

    private KcpException bad(String what, Exception cause) {
        return new KcpException(KcpException.Code.BAD_DATA, fragments + ": " + what, cause);
    }

    /** The partition's name in reports. */
    String label() {
        return fragments == null ? Layout.parse(layout).label() : "fragments";
    }

    /** Tokens at whose multiples cuts lie; 0 where a file says where they are. */
    int align() {
        return fragments == null ? align : 0;
    }
}
