package dev.kcp.nccl;

import dev.kcp.KcpException;
import java.nio.file.Path;
import java.util.Optional;

/** A version of NCCL. */
public record NcclVersion(int major, int minor, int patch) implements Comparable<NcclVersion> {
    /** The first with communicators that never block their caller, which deadlines need. */
    public static final NcclVersion NEEDED = new NcclVersion(2, 14, 3);

    /** Up to 2.8 one digit less was spent on the minor version. */
    private static final int FIRST_LONG_CODE = 10_000;

    /** From NCCL's own number, such as 22703 for 2.27.3. */
    public static NcclVersion ofCode(int code) {
        int majorUnit = code < FIRST_LONG_CODE ? 1_000 : 10_000;
        return new NcclVersion(code / majorUnit, code % majorUnit / 100, code % 100);
    }

    /**
     * Asks a library file, before any function that only newer ones have is looked for.
     *
     * @return empty where the file is no library that can be loaded here, or does not say
     */
    public static Optional<NcclVersion> of(Path library) {
        return LibraryProbe.version(library.toAbsolutePath().toString(), "ncclGetVersion", 1)
                .map(code -> ofCode(code[0]));
    }

    /**
     * The version of a library file that can be used.
     *
     * @throws KcpException with code MISSING_DEVICE, naming the version found and the one needed
     */
    public static NcclVersion require(Path library) {
        NcclVersion found = of(library)
                .orElseThrow(() -> new KcpException(
                        KcpException.Code.MISSING_DEVICE,
                        "not a library of NCCL that can be loaded: library=" + library));
        if (found.compareTo(NEEDED) < 0) {
            throw new KcpException(
                    KcpException.Code.MISSING_DEVICE,
                    "NCCL is too old: found=" + found + " needed=" + NEEDED + " library=" + library);
        }
        return found;
    }

    @Override
    public int compareTo(NcclVersion other) {
        int byMajor = Integer.compare(major, other.major);
        int byMinor = byMajor != 0 ? byMajor : Integer.compare(minor, other.minor);
        return byMinor != 0 ? byMinor : Integer.compare(patch, other.patch);
    }

    @Override
    public String toString() {
        return major + "." + minor + "." + patch;
    }
}
