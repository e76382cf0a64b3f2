package dev.kcp.train.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.cuda.KernelText;
import dev.kcp.cuda.KernelText.Entry;
import dev.kcp.cuda.KernelText.Member;
import dev.kcp.train.ModelShape;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** What the trainer's kernels and their host must say alike. */
class TrainMirrorTest {
    private static final KernelText TRAIN = KernelText.of(CudaTrainEngine.class, "train");
    private static final KernelText PRODUCTS = KernelText.of(SmallTiles.class, "train_products");
    private static final Pattern NAME = Pattern.compile("\"(train_\\w+)\"");

    @Test
    void blocksTreesAndTilesHaveTheSameSizes() {
        assertThat(TRAIN.constant("kThreads")).isEqualTo(CudaTrainEngine.BLOCK_THREADS);
        assertThat(TRAIN.constant("kWarps")).isEqualTo(CudaTrainEngine.BLOCK_WARPS);
        assertThat(TRAIN.constant("kLeafRows")).isEqualTo(TreeSums.LEAF_ROWS);
        assertThat(TRAIN.constant("kFanIn")).isEqualTo(TreeSums.FAN_IN);
        assertThat(TRAIN.constant("kVocabulary")).isEqualTo(ModelShape.VOCABULARY);
        assertThat(TRAIN.constant("kNormBlocks")).isEqualTo(CudaOptimizer.NORM_BLOCKS);
        assertThat(PRODUCTS.constant("kThreads")).isEqualTo(SmallTiles.BLOCK_THREADS);
        assertThat(PRODUCTS.constant("kBlockK")).isEqualTo(SmallTiles.BLOCK_K);
        assertThat(PRODUCTS.constant("kBlockM")).isEqualTo(SmallTiles.BLOCK_M);
        assertThat(PRODUCTS.constant("kGroupTiles")).isEqualTo(TreeSums.FAN_IN);
        assertThat(PRODUCTS.constant("kStages") * PRODUCTS.constant("kStageBytes"))
                .isEqualTo(SmallTiles.SHARED_BYTES);
    }

    @Test
    void everyKernelIsCompiledForItsBlocks() {
        TRAIN.entries().values().forEach(entry -> assertThat(entry.threads())
                .as(entry.name())
                .isEqualTo(
                        entry.name().equals("train_root") ? CudaOptimizer.NORM_BLOCKS : CudaTrainEngine.BLOCK_THREADS));
        assertThat(PRODUCTS.entries().values())
                .containsExactly(new Entry("train_small_tiles", SmallTiles.BLOCK_THREADS, "ProductArgs"));
    }

    /** Arguments are set by their order; a field that one side lacks shifts all behind it. */
    @Test
    void everyLaunchSetsAsManyFieldsAsTheKernelsArgumentHas() throws IOException {
        Map<String, Integer> fields = new HashMap<>();
        for (KernelText text : List.of(TRAIN, PRODUCTS)) {
            for (Entry entry : text.entries().values()) {
                List<Member> members = text.struct(entry.argument());
                assertThat(members).allSatisfy(member -> {
                    assertThat(member.count()).as(member.name()).isEqualTo(1);
                    assertThat(text.bytes(member.type())).as(member.name()).isEqualTo(Long.BYTES);
                });
                fields.put(entry.name(), members.size());
            }
        }
        assertThat(fields.values())
                .allMatch(count -> count <= CudaTrainEngine.ARGUMENT_WORDS)
                .allMatch(count -> count <= SmallTiles.ARGUMENT_WORDS);
        Set<String> launched = new HashSet<>();
        Path folder = Path.of(System.getProperty("kcp.root"), "launcher/src/main/java/dev/kcp/train/cuda");
        try (DirectoryStream<Path> files = Files.newDirectoryStream(folder, "*.java")) {
            for (Path file : files) {
                String text = Files.readString(file);
                for (int at = text.indexOf("programs.set("); at >= 0; at = text.indexOf("programs.set(", at + 1)) {
                    int begin = text.indexOf('(', at);
                    int end = argumentsEnd(text, begin);
                    int launch = text.indexOf(".launch(", end) + ".launch".length();
                    for (Matcher name = NAME.matcher(text.substring(launch, argumentsEnd(text, launch)));
                            name.find(); ) {
                        launched.add(name.group(1));
                        assertThat(arguments(text.substring(begin + 1, end)))
                                .as(name.group(1))
                                .isEqualTo(fields.get(name.group(1)));
                    }
                }
            }
        }
        // The norm's end takes the argument of its beginning.
        launched.add("train_root");
        assertThat(launched).isEqualTo(fields.keySet());
    }

    /** Where the parenthesis that opens at an index is closed. */
    private static int argumentsEnd(String text, int begin) {
        int depth = 0;
        for (int i = begin; ; i++) {
            depth += text.charAt(i) == '(' ? 1 : text.charAt(i) == ')' ? -1 : 0;
            if (depth == 0) {
                return i;
            }
        }
    }

    private static int arguments(String text) {
        int depth = 0;
        int count = 1;
        for (char c : text.toCharArray()) {
            depth += c == '(' ? 1 : c == ')' ? -1 : 0;
            count += c == ',' && depth == 0 ? 1 : 0;
        }
        return count;
    }
}
