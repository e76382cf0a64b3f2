package dev.kcp.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.KcpException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TextCorpusTest {
    @TempDir
    Path folder;

    private final List<String> notes = new ArrayList<>();

    @Test
    void blankLinesSeparateDocuments() {
        assertThat(documents("one\ntwo\n\nthree\n")).containsExactly("one\ntwo", "three");
    }

    @Test
    void blankLinesAtBothEndsAndInRowsMakeNoDocument() {
        assertThat(documents("\n\none\n\n\n\ntwo\n\n")).containsExactly("one", "two");
    }

    @Test
    void lastLineNeedsNoEnding() {
        assertThat(documents("one\n\ntwo")).containsExactly("one", "two");
    }

    @Test
    void carriageReturnsBeforeNewlinesAreLineEndings() {
        assertThat(documents("one\r\ntwo\r\n\r\nthree\r\n")).containsExactly("one\r\ntwo", "three");
    }

    @Test
    void carriageReturnAloneIsText() {
        assertThat(documents("one\rtwo\n\n\r")).containsExactly("one\rtwo", "\r");
    }

    @Test
    void spacesMakeALineThatIsNotBlank() {
        assertThat(documents("one\n \ntwo")).containsExactly("one\n \ntwo");
    }

    @Test
    void textsDoNotRunIntoEachOther() {
        TextCorpus corpus = TextCorpus.of(bytes("one\ntwo"), bytes("three"));
        assertThat(documentsOf(corpus)).containsExactly("one\ntwo", "three");
        assertThat(corpus.bytes()).isEqualTo(12);
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "\n", "\n\n\n", "\r\n\r\n"})
    void blankTextHasNoDocument(String text) {
        assertThat(documents(text)).isEmpty();
    }

    @Test
    void folderIsReadInPathOrderWithoutHiddenFiles() throws IOException {
        write("b.txt", "second");
        write("a/deep/x.txt", "first");
        write("c.txt", "third");
        write(".hidden", "no");
        write(".git/config", "no");
        assertThat(documentsOf(TextCorpus.read(List.of(folder), false))).containsExactly("first", "second", "third");
    }

    @Test
    void hiddenFolderThatWasNamedIsRead() throws IOException {
        write(".notes/a.txt", "yes");
        assertThat(documentsOf(TextCorpus.read(List.of(folder.resolve(".notes")), false)))
                .containsExactly("yes");
    }

    @Test
    void pathsKeepTheirOrder() throws IOException {
        Path b = write("b.txt", "b");
        Path a = write("a.txt", "a");
        assertThat(documentsOf(TextCorpus.read(List.of(b, a), false))).containsExactly("b", "a");
    }

    @Test
    void missingPathIsRefused() {
        assertRefused(folder.resolve("none"), "no such file or folder");
    }

    @Test
    void danglingLinkIsRefused() throws IOException {
        assertRefused(
                Files.createSymbolicLink(folder.resolve("link"), folder.resolve("none")), "no such file or folder");
    }

    @Test
    void deviceIsRefused() {
        assertRefused(Path.of("/dev/null"), "neither a file nor a folder");
    }

    @Test
    void folderThatLinksBackToItselfIsRefused() throws IOException {
        write("in/a.txt", "a");
        Files.createSymbolicLink(folder.resolve("in/loop"), folder.resolve("in"));
        assertRefused(folder.resolve("in"), "cannot be read");
    }

    @Test
    void whatIsWrongInsideAHiddenFolderDoesNotMatter() throws IOException {
        write("a.txt", "text");
        write(".git/config", "no");
        Files.createSymbolicLink(folder.resolve(".git/up"), folder);
        Files.createSymbolicLink(folder.resolve(".loop"), folder);
        assertThat(read(Map.of(), folder)).containsExactly("text");
        assertThat(notes).isEmpty();
    }

    @Test
    void whatTheRunWritesIsLeftOutOfAFolder() throws IOException {
        write("a.txt", "text");
        Path log = write("loss.jsonl", "{}");
        write("run/state-00000003.safetensors", "a\0b");
        Path run = folder.resolve("run");
        // The name by which an output is given need not be that by which it is found.
        Path same = folder.resolve("run/../loss.jsonl");
        assertThat(read(Map.of("save", run, "loss-log", same, "plot", folder.resolve("none.svg")), folder))
                .containsExactly("text");
        assertThat(notes).containsExactly("outputs of this run are left out of the text: count=2 first=" + log);
    }

    @Test
    void statesAreLeftOutOfAGivenFolderThatIsAlsoSavedTo() throws IOException {
        write("a.txt", "text");
        write("state-00000003.safetensors", "a\0b");
        write("state-00000006.safetensors.damaged", "a\0b");
        write("state.txt", "of mind");
        assertThat(read(Map.of("save", folder), folder)).containsExactly("text", "of mind");
    }

    @Test
    void givenFileThatIsAlsoWrittenIsRefused() throws IOException {
        Path text = write("a.txt", "text");
        assertThatThrownBy(() -> read(Map.of("loss-log", text), text))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageEndingWith("data=" + text + " loss-log=" + text);
    }

    @Test
    void oddFilesAreNotedInALineOfEachKind() throws IOException {
        Path mark = write("a.txt", "\u00EF\u00BB\u00BFtext");
        write("b.txt", "\u00FF\u00FEt");
        Path dangling = Files.createSymbolicLink(folder.resolve("c"), folder.resolve("none"));
        Files.createSymbolicLink(folder.resolve("d"), folder.resolve("none"));
        Files.createSymbolicLink(folder.resolve("e"), mark);
        Path device = Files.createSymbolicLink(folder.resolve("f"), Path.of("/dev/null"));
        assertThat(read(Map.of(), folder, mark))
                .containsExactly(
                        "\u00EF\u00BB\u00BFtext", "\u00FF\u00FEt", "\u00EF\u00BB\u00BFtext", "\u00EF\u00BB\u00BFtext");
        assertThat(notes)
                .containsExactly(
                        "links that lead nowhere are left out of the text: count=2 first=" + dangling,
                        "pipes, sockets and devices are left out of the text: count=1 first=" + device,
                        "files come more than once, and are read as often: count=2 first=" + mark,
                        "files begin with a byte order mark, which is read as text: count=4 first=" + mark);
    }

    @Test
    void heldOutDocumentsThatAreLearntFromAreCounted() {
        TextCorpus learnt = TextCorpus.of(bytes("one\n\ntwo\n\nthree"));
        new HeldOutText(TextCorpus.of(bytes("two\n\nfour\n\ntwo\n\non")), 1).tellLearnt(learnt, notes::add);
        assertThat(notes).containsExactly("held-out text holds documents that are also learnt from: count=2 of=4");
        new HeldOutText(TextCorpus.of(bytes("four")), 1).tellLearnt(learnt, notes::add);
        assertThat(notes).hasSize(1);
    }

    @Test
    void emptyPathIsRefusedAndNotTheCurrentFolder() {
        assertThatThrownBy(() -> TextCorpus.read(List.of(Path.of("")), false))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageEndingWith("data=");
    }

    private List<String> read(Map<String, Path> outputs, Path... paths) {
        return documentsOf(
                TextCorpus.read(List.of(paths), false, TextCorpus.Documents.BLANK_LINE, outputs, notes::add));
    }

    @Test
    void emptyFileIsRefused() throws IOException {
        assertRefused(write("empty.txt", ""), "no document was found");
    }

    @Test
    void folderWithoutFilesIsRefused() {
        assertRefused(folder, "no document was found");
    }

    @Test
    void fileCanBeOneDocumentAsItIs() throws IOException {
        Files.writeString(folder.resolve("a"), "one\n\ntwo\n");
        Files.writeString(folder.resolve("b"), "");
        Files.writeString(folder.resolve("c"), "\n");
        assertThat(documentsOf(TextCorpus.read(List.of(folder), false, TextCorpus.Documents.FILE)))
                .containsExactly("one\n\ntwo\n", "\n");
    }

    @Test
    void nulBytesAreRefusedUnlessAllowed() throws IOException {
        Path file = write("binary", "ab\0c");
        assertRefused(file, "offset=2");
        assertThat(documentsOf(TextCorpus.read(List.of(file), true))).containsExactly("ab\0c");
    }

    private void assertRefused(Path path, String reason) {
        assertThatThrownBy(() -> TextCorpus.read(List.of(path), false))
                .isInstanceOfSatisfying(KcpException.class, failure -> assertThat(failure.code())
                        .isEqualTo(KcpException.Code.BAD_DATA))
                .hasMessageContaining(reason)
                .hasMessageContaining(path.toString())
                .message()
                .hasLineCount(1);
    }

    private Path write(String name, String text) throws IOException {
        Path file = folder.resolve(name);
        Files.createDirectories(file.getParent());
        return Files.write(file, bytes(text));
    }

    private static List<String> documents(String text) {
        return documentsOf(TextCorpus.of(bytes(text)));
    }

    static List<String> documentsOf(TextCorpus corpus) {
        List<String> documents = new ArrayList<>();
        for (int document = 0; document < corpus.documents(); document++) {
            byte[] text = new byte[corpus.bytes(document)];
            corpus.copy(document, 0, text.length, text, 0);
            documents.add(new String(text, StandardCharsets.ISO_8859_1));
        }
        return documents;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }
}
