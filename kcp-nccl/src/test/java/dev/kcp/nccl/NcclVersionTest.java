package dev.kcp.nccl;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.kcp.KcpException;
import dev.kcp.conv.Eventually;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NcclVersionTest {
    @TempDir
    private Path folder;

    /** A library with one function, made by the machine's C compiler. */
    private Path library(String code) throws Exception {
        Path compiler = Path.of("/usr/bin/cc");
        assumeTrue(Files.isExecutable(compiler), "no C compiler to make a library with");
        Path source = Files.writeString(folder.resolve("nccl.c"), code);
        Path library = folder.resolve(NcclLibrary.FILE_NAME);
        Process process = new ProcessBuilder(
                        compiler.toString(), "-shared", "-fPIC", "-o", library.toString(), source.toString())
                .inheritIO()
                .start();
        assertThat(process.waitFor(Eventually.LIMIT)).isTrue();
        assertThat(process.exitValue()).isZero();
        return library;
    }

    @Test
    void numbersAreReadInBothForms() {
        assertThat(NcclVersion.ofCode(22703))
                .isEqualTo(new NcclVersion(2, 27, 3))
                .hasToString("2.27.3");
        assertThat(NcclVersion.ofCode(20900)).isEqualTo(new NcclVersion(2, 9, 0));
        assertThat(NcclVersion.ofCode(2804)).isEqualTo(new NcclVersion(2, 8, 4));
        assertThat(new NcclVersion(2, 9, 0)).isLessThan(new NcclVersion(2, 14, 0));
        assertThat(new NcclVersion(3, 0, 0)).isGreaterThan(NcclVersion.NEEDED);
    }

    @Test
    void aLibrarySaysItsVersionWithoutTheBinding() throws Exception {
        Path library = library("int ncclGetVersion(int *version) { *version = 22703; return 0; }");
        assertThat(NcclVersion.require(library)).isEqualTo(new NcclVersion(2, 27, 3));
    }

    /** Case 97: it has none of the functions that a newer one has: the versions are named, not a missing function. */
    @Test
    void anOldLibraryIsRefusedWithTheVersionFoundAndTheOneNeeded() throws Exception {
        Path library = library("int ncclGetVersion(int *version) { *version = 2804; return 0; }");
        assertThatThrownBy(() -> Nccl.load(library))
                .isInstanceOfSatisfying(
                        KcpException.class, e -> assertThat(e.code()).isEqualTo(KcpException.Code.MISSING_DEVICE))
                .hasMessage("NCCL is too old: found=2.8.4 needed=2.14.3 library=" + library);
    }

    @Test
    void whatIsNoLibraryOfNcclIsRefused() throws Exception {
        Path text = Files.writeString(folder.resolve("text"), "no library");
        assertThat(NcclVersion.of(text)).isEmpty();
        assertThatThrownBy(() -> NcclVersion.require(text))
                .isInstanceOf(KcpException.class)
                .hasMessageContaining("library=" + text);
        assertThat(NcclVersion.of(library("int otherFunction(void) { return 1; }")))
                .isEmpty();
        assertThat(NcclVersion.of(library("int ncclGetVersion(int *version) { return 3; }")))
                .isEmpty();
    }

    @Test
    void aVersionMayBeSeveralNumbers() throws Exception {
        Path library = library("int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 1; return 0; }");
        assertThat(LibraryProbe.version(library.toString(), "nvrtcVersion", 2))
                .get()
                .isEqualTo(new int[] {13, 1});
    }

    @Test
    void aNameThatTheLoaderDoesNotFindGivesNothing() {
        assertThat(LibraryProbe.version("libnothing-of-the-kind.so.7", "version", 2))
                .isEmpty();
        assertThat(LibraryProbe.version("libc.so.6", "no_such_function", 1)).isEmpty();
    }
}
