package dev.kcp;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.NoSuchFileException;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class WordsTest {
    @Test
    void charactersThatAreNotSeenAreEscapedAndTheOthersStay() {
        assertThat(Words.line(" a\u001b[1mb\t\u202e\ufeff\ud800 grüße 日本 \ud83d\ude80\u0000 "))
                .isEqualTo("a\\u001b[1mb\\u0009\\u202e\\ufeff\\ud800 grüße 日本 \ud83d\ude80\\u0000");
        assertThat(Words.line("a\n  b\r\nc\u2028d")).isEqualTo("a | b | c | d");
    }

    @Test
    void longWordLosesItsMiddleAndTheOthersStay() {
        String longest = "x".repeat(Words.LONGEST_WORD);
        assertThat(Words.line(longest)).isEqualTo(longest);
        String cut = Words.line("no such file: in=b" + "x".repeat(16_000) + "e n=3");
        assertThat(cut)
                .hasSizeBetween(900, 1020)
                .startsWith("no such file: in=bxxx")
                .endsWith("xxxe n=3")
                .containsPattern("x\\.\\.\\.\\(15\\d{3} characters left out\\)\\.\\.\\.x");
    }

    @Test
    void pairsOfOneCharacterAreNotCut() {
        for (String begin : new String[] {"", "x"}) {
            assertThat(Words.line(begin + "\ud83d\ude80".repeat(8_000))).doesNotContainPattern("\\p{Cs}");
        }
    }

    @Test
    void longLineOfShortWordsLosesItsMiddle() {
        assertThat(Words.line("begin " + "word ".repeat(10_000) + "n=3"))
                .hasSizeLessThanOrEqualTo(Words.LONGEST_LINE)
                .startsWith("begin word")
                .endsWith("word n=3");
    }

    static Stream<Arguments> failures() {
        return Stream.of(
                Arguments.of(new IllegalStateException("odd: n=1"), "odd: n=1"),
                Arguments.of(new IllegalStateException(new IOException("disk")), "disk"),
                Arguments.of(new UncheckedIOException(new EOFException()), "it ends too early"),
                Arguments.of(
                        new UncheckedIOException("cannot write: file=f", new NoSuchFileException("f")),
                        "cannot write: file=f cause=no such file or folder"),
                Arguments.of(new DirectoryNotEmptyException("d"), "the folder is not empty: file=d"),
                Arguments.of(new NullPointerException(), "it failed without a word"),
                Arguments.of(new OutOfMemoryError("Java heap space"), "out of memory: Java heap space"),
                Arguments.of(new ExceptionInInitializerError(new UnsatisfiedLinkError("no x")), "no x"));
    }

    @ParameterizedTest
    @MethodSource("failures")
    void failureIsSaidWithoutItsClass(Throwable failure, String words) {
        assertThat(Words.of(failure)).isEqualTo(words);
    }
}
