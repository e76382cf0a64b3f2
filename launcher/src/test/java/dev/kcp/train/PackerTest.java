package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.core.CuSeqlens;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class PackerTest {
    @Test
    void documentIsReadBehindNulAndPredictsNulAtItsEnd() {
        PackedBatch batch = new Packer(corpus("abc"), 4, 1).next();
        assertThat(batch.inputs()).containsExactly(0, 'a', 'b', 'c');
        assertThat(batch.targets()).containsExactly('a', 'b', 'c', 0);
        assertThat(batch.cuSeqlens().documents()).isEqualTo(1);
    }

    @Test
    void cutDocumentGoesOnInTheNextBatch() {
        Packer packer = new Packer(corpus("abcdef"), 3, 1);
        assertThat(packer.next().inputs()).containsExactly(0, 'a', 'b');
        PackedBatch second = packer.next();
        assertThat(second.inputs()).containsExactly('c', 'd', 'e');
        assertThat(second.targets()).containsExactly('d', 'e', 'f');
        PackedBatch third = packer.next();
        assertThat(third.inputs()).containsExactly('f', 0, 'a');
        assertThat(third.targets()).containsExactly(0, 'a', 'b');
        assertThat(third.cuSeqlens().length(0)).isEqualTo(1);
        assertThat(packer.epochs()).isEqualTo(2);
    }

    @Test
    void textShorterThanABatchRepeats() {
        PackedBatch batch = new Packer(corpus("a"), 5, 1).next();
        assertThat(batch.inputs()).containsExactly(0, 'a', 0, 'a', 0);
        assertThat(batch.cuSeqlens().documents()).isEqualTo(3);
    }

    @ParameterizedTest
    @CsvSource({"1,1", "2,7", "3,64", "4,100", "5,5000"})
    void everyByteIsPredictedOncePerEpoch(long seed, int tokens) {
        TextCorpus corpus = randomCorpus(new Random(seed), 40);
        long epochTokens = corpus.bytes() + corpus.documents();
        List<String> expected =
                TextCorpusTest.documentsOf(corpus).stream().sorted().toList();
        List<String> documents = new ArrayList<>();
        StringBuilder open = new StringBuilder();
        Packer packer = new Packer(corpus, tokens, seed);
        for (long seen = 0; seen < 3 * epochTokens + tokens; seen += tokens) {
            unpack(packer.next(), tokens, open, documents);
        }
        assertThat(documents).hasSizeGreaterThanOrEqualTo(3 * corpus.documents());
        for (int epoch = 0; epoch < 3; epoch++) {
            int begin = epoch * corpus.documents();
            assertThat(documents.subList(begin, begin + corpus.documents()).stream()
                            .sorted())
                    .containsExactlyElementsOf(expected);
        }
        assertThat(documents.subList(0, corpus.documents()))
                .isNotEqualTo(documents.subList(corpus.documents(), 2 * corpus.documents()));
    }

    /** Appends the batch's targets to the open document, and checks that its inputs are the targets one later. */
    private static void unpack(PackedBatch batch, int tokens, StringBuilder open, List<String> documents) {
        assertThat(batch.tokens()).isEqualTo(tokens);
        CuSeqlens cuSeqlens = batch.cuSeqlens();
        assertThat(cuSeqlens.tokens()).isEqualTo(tokens);
        for (int document = 0; document < cuSeqlens.documents(); document++) {
            assertThat(cuSeqlens.length(document)).isPositive();
            for (int i = cuSeqlens.begin(document); i < cuSeqlens.end(document); i++) {
                int before = open.isEmpty() ? 0 : open.charAt(open.length() - 1);
                assertThat(Byte.toUnsignedInt(batch.inputs()[i])).isEqualTo(before);
                int target = Byte.toUnsignedInt(batch.targets()[i]);
                if (target != 0) {
                    open.append((char) target);
                } else {
                    assertThat(i).isEqualTo(cuSeqlens.end(document) - 1);
                    documents.add(open.toString());
                    open.setLength(0);
                }
            }
            boolean cut = !open.isEmpty();
            assertThat(cut && document < cuSeqlens.documents() - 1)
                    .as("only a batch's last document is cut")
                    .isFalse();
        }
    }

    @Test
    void sameSeedGivesSameBatchesAndAnotherSeedOthers() {
        TextCorpus corpus = randomCorpus(new Random(7), 30);
        Packer first = new Packer(corpus, 50, 3);
        Packer same = new Packer(corpus, 50, 3);
        Packer other = new Packer(corpus, 50, 4);
        boolean differs = false;
        for (int i = 0; i < 20; i++) {
            byte[] inputs = first.next().inputs();
            assertThat(same.next().inputs()).isEqualTo(inputs);
            differs |= !java.util.Arrays.equals(other.next().inputs(), inputs);
        }
        assertThat(differs).isTrue();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 7, 64, 500})
    void packerGoesOnFromAnyPosition(int tokens) {
        TextCorpus corpus = randomCorpus(new Random(9), 12);
        Packer unbroken = new Packer(corpus, tokens, 5);
        assertThat(unbroken.position()).isEqualTo(DataPosition.START);
        for (int batch = 0; batch < 200; batch++) {
            Packer resumed = new Packer(corpus, tokens, 5, unbroken.position());
            PackedBatch expected = unbroken.next();
            PackedBatch actual = resumed.next();
            assertThat(actual.inputs()).isEqualTo(expected.inputs());
            assertThat(actual.targets()).isEqualTo(expected.targets());
            assertThat(actual.cuSeqlens()).isEqualTo(expected.cuSeqlens());
            assertThat(resumed.position()).isEqualTo(unbroken.position());
        }
    }

    @Test
    void positionOutsideTheCorpusIsRefused() {
        assertThatThrownBy(() -> new Packer(corpus("abc"), 4, 1, new DataPosition(0, 2, 0)))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageEndingWith("document=2 token=0 documents=1");
        assertThatThrownBy(() -> new Packer(corpus("abc"), 4, 1, new DataPosition(0, 0, 4)))
                .isInstanceOf(IllegalArgumentException.class);
    }

    @ParameterizedTest
    @ValueSource(ints = {0, -1})
    void batchWithoutTokensIsRefused(int tokens) {
        assertThatThrownBy(() -> new Packer(corpus("a"), tokens, 1))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageEndingWith("tokens=" + tokens + " documents=1");
    }

    @Test
    void corpusWithoutDocumentsIsRefused() {
        assertThatThrownBy(() -> new Packer(TextCorpus.of(), 8, 1)).isInstanceOf(IllegalArgumentException.class);
    }

    private static TextCorpus corpus(String text) {
        return TextCorpus.of(text.getBytes(StandardCharsets.ISO_8859_1));
    }

    private static TextCorpus randomCorpus(Random random, int documents) {
        StringBuilder text = new StringBuilder();
        for (int document = 0; document < documents; document++) {
            int length = 1 + random.nextInt(document % 5 == 0 ? 200 : 9);
            for (int i = 0; i < length; i++) {
                text.append((char) (32 + random.nextInt(224)));
            }
            text.append("\n\n");
        }
        return corpus(text.toString());
    }
}
