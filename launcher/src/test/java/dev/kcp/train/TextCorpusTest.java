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
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TextCorpusTest {
    @TempDir
    Path folder;

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
        assertRefused(folder.resolve("in"), "the folder cannot be read");
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
