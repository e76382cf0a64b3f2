package dev.kcp;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** Digests of contents; equal contents have equal digests on every machine. */
public final class Digest {
    private Digest() {}

    /** A new SHA-256, for contents in several parts. */
    public static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java platform has SHA-256", e);
        }
    }

    /** The first 8 bytes of SHA-256, for what ranks must mean alike. */
    public static long of(ByteBuffer bytes) {
        MessageDigest sha = sha256();
        sha.update(bytes);
        return ByteBuffer.wrap(sha.digest()).getLong();
    }
}
