package dev.kcp.conv.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.ConvChecks;
import dev.kcp.conv.RowOps;
import dev.kcp.conv.ShardTables;
import dev.kcp.conv.cuda.CallArguments.Field;
import dev.kcp.conv.tree.NodeStack;
import dev.kcp.cuda.KernelText;
import dev.kcp.cuda.KernelText.Entry;
import dev.kcp.cuda.KernelText.Member;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** What the convolution's kernels and their host must say alike. */
class ConvMirrorTest {
    private static final KernelText FORWARD = KernelText.of(Kernels.class, "conv_forward");
    private static final KernelText BACKWARD = KernelText.of(Kernels.class, "conv_backward");
    private static final KernelText CHECK = KernelText.of(Kernels.class, "conv_check");
    private static final KernelText ROWS = KernelText.of(CudaRowOps.class, "rows");

    @Test
    void theArgumentHasTheFieldsOfTheStructInItsOrder() {
        List<Member> members = FORWARD.struct("ConvArgs");
        assertThat(members).allSatisfy(member -> {
            assertThat(member.count()).as(member.name()).isEqualTo(1);
            assertThat(FORWARD.bytes(member.type())).as(member.name()).isEqualTo(Long.BYTES);
        });
        assertThat(members.stream().map(member -> inCapitals(member.name())))
                .containsExactlyElementsOf(
                        Stream.of(Field.values()).map(Enum::name).toList());
    }

    private static String inCapitals(String name) {
        return name.replaceAll("([a-z0-9])([A-Z])", "$1_$2").toUpperCase(Locale.ROOT);
    }

    @Test
    void everyProgramIsAKernelOfItsFileAndEveryKernelAProgram() {
        for (Map.Entry<String, KernelText> file : Map.of(
                        "conv_forward", FORWARD, "conv_backward", BACKWARD, "conv_check", CHECK)
                .entrySet()) {
            List<String> programs = ConvProgram.ALL.stream()
                    .filter(program -> program.file().equals(file.getKey()))
                    .map(ConvProgram::entry)
                    .toList();
            assertThat(file.getValue().entries().keySet()).containsExactlyInAnyOrderElementsOf(programs);
        }
        assertThat(ConvProgram.ALL).hasSize(46).doesNotHaveDuplicates();
    }

    @Test
    void blocksHaveTheThreadsThatTheirKernelsAreCompiledFor() {
        for (KernelText file : List.of(FORWARD, BACKWARD)) {
            for (Entry entry : file.entries().values()) {
                assertThat(entry.argument()).isEqualTo("ConvArgs");
                assertThat(entry.threads()).as(entry.name()).isIn(0L, (long) ConvProgram.blockThreads());
            }
            assertThat(file.entries().values())
                    .anySatisfy(entry -> assertThat(entry.threads()).isPositive());
        }
        assertThat(CHECK.entries().get("check_offsets"))
                .isEqualTo(new Entry("check_offsets", OffsetCheck.THREADS, "ConvArgs"));
    }

    @Test
    void leavesGroupsAndTilesHaveTheSameSizes() {
        assertThat(FORWARD.constant("kWarpChannels")).isEqualTo(ConvProgram.WARP_CHANNELS);
        assertThat(FORWARD.constant("kForwardWarps")).isEqualTo(ConvProgram.BLOCK_WARPS);
        assertThat(FORWARD.constant("kHistory")).isEqualTo(ShardTables.HISTORY).isEqualTo(ConvChecks.TAPS - 1);
        assertThat(BACKWARD.constant("kBackwardWarps")).isEqualTo(ConvProgram.BLOCK_WARPS);
        assertThat(BACKWARD.constant("kLeafRows")).isEqualTo(NodeStack.LEAF_TOKENS);
        assertThat(BACKWARD.constant("kGroupLeaves")).isEqualTo(ShardImage.GROUP_LEAVES);
        assertThat(BACKWARD.constant("kGroupRows")).isEqualTo(ConvProgram.GROUP_ROWS);
        assertThat(ShardImage.WARP_LEAVES * ConvProgram.BLOCK_WARPS).isEqualTo(ShardImage.GROUP_LEAVES);
        assertThat(BACKWARD.constant("kReduceParts")).isEqualTo(ProgramLaunches.REDUCE_PARTS);
        assertThat(BACKWARD.constant("kChunkRows")).isEqualTo(ConvProgram.CHUNK_ROWS);
        assertThat(CHECK.constant("kNever")).isEqualTo(ShardImage.NEVER);
    }

    @Test
    void rowOperationsPutEachFieldWhereTheStructsHaveIt() {
        assertThat(ROWS.bytes("MoveArgs")).isEqualTo((long) CudaRowOps.WORDS * Long.BYTES);
        assertThat(ROWS.struct("MoveArgs").stream().map(Member::count))
                .containsExactly(
                        1L,
                        (long) RowOps.MOST_SOURCES,
                        (long) RowOps.MOST_SOURCES,
                        (long) RowOps.MOST_TARGETS,
                        (long) RowOps.MOST_TARGETS,
                        1L);
        Map<String, Integer> fields = Map.of(
                "moves", CudaRowOps.MOVES,
                "source", CudaRowOps.SOURCE,
                "sourcePitch", CudaRowOps.SOURCE_PITCH,
                "target", CudaRowOps.TARGET,
                "targetPitch", CudaRowOps.TARGET_PITCH,
                "rowChunks", CudaRowOps.ROW_CHUNKS);
        fields.forEach((name, word) ->
                assertThat(ROWS.offset("MoveArgs", name)).as(name).isEqualTo((long) word * Long.BYTES));
        assertThat(ROWS.struct("AddArgs").stream().map(Member::name))
                .containsExactly("additions", "count", "rows", "elements");
        assertThat(ROWS.bytes("AddArgs")).isEqualTo(4L * Long.BYTES).isLessThanOrEqualTo(ROWS.bytes("MoveArgs"));
        assertThat(ROWS.entries()).hasSize(3);
        assertThat(ROWS.entries().values())
                .allSatisfy(entry -> assertThat(entry.threads()).isEqualTo(CudaRowOps.BLOCK_THREADS));
    }
}
