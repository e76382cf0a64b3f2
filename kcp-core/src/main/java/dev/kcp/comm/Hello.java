package dev.kcp.comm;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;

/**
 * The first words on every connection, to a store or between ranks. Who connects says what it is; who accepts answers
 * in the same form, or with a refusal. Nothing else is read from a stranger, and never more than {@link #MAX_BYTES}. The
 * secret keeps jobs and strangers apart; it travels in the clear, so it is no shield against who reads the network.
 *
 * @param purpose what the connection is for; both ends must mean the same
 * @param jobId the job
 * @param secret what only the job's ranks know
 * @param rank the speaker's rank, or {@link #NO_RANK} for a store
 */
record Hello(String purpose, String jobId, String secret, int rank) {
    static final int NO_RANK = -1;
    static final int HANDSHAKE_MILLIS = 10_000;

    private static final int MAGIC = 0x6b637031; // "kcp1"
    private static final int VERSION = 1;
    private static final int MAX_BYTES = 4096;
    private static final byte WELCOME = 1;
    private static final byte REFUSED = 2;

    /** The other end refused this one; its reason. */
    static final class RefusedException extends IOException {
        private static final long serialVersionUID = 1L;

        RefusedException(String reason) {
            super(reason);
        }
    }

    void write(OutputStream out) throws IOException {
        writeAnswer(out, WELCOME, null);
    }

    private void writeAnswer(OutputStream to, byte kind, String refusal) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeByte(kind);
        if (refusal != null) {
            out.writeUTF(refusal);
        } else {
            out.writeUTF(purpose);
            out.writeUTF(jobId);
            out.writeUTF(secret);
            out.writeInt(rank);
        }
        if (bytes.size() > MAX_BYTES) {
            throw new IllegalArgumentException("job id or secret too long: bytes=" + bytes.size());
        }
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        DataOutputStream framed = new DataOutputStream(all);
        framed.writeInt(MAGIC);
        framed.writeShort(VERSION);
        framed.writeShort(bytes.size());
        bytes.writeTo(framed);
        to.write(all.toByteArray());
        to.flush();
    }

    private static DataInputStream readBody(InputStream from) throws IOException {
        DataInputStream in = new DataInputStream(from);
        int magic = in.readInt();
        if (magic != MAGIC) {
            throw new IOException("the other end does not speak this protocol");
        }
        int version = in.readUnsignedShort();
        if (version != VERSION) {
            throw new RefusedException("protocol versions differ: here=" + VERSION + " there=" + version);
        }
        int length = in.readUnsignedShort();
        if (length > MAX_BYTES) {
            throw new IOException("greeting too long: bytes=" + length);
        }
        return new DataInputStream(new ByteArrayInputStream(in.readNBytes(length)));
    }

    /**
     * Reads the other end's greeting and compares it with the own.
     *
     * @throws RefusedException if the other end refuses, or is of another job
     */
    private Hello readAndCompare(InputStream from) throws IOException {
        DataInputStream in = readBody(from);
        if (in.readByte() == REFUSED) {
            throw new RefusedException(in.readUTF());
        }
        Hello other = new Hello(in.readUTF(), in.readUTF(), in.readUTF(), in.readInt());
        if (!purpose.equals(other.purpose)) {
            throw new RefusedException("this is no " + other.purpose + " but a " + purpose);
        }
        if (!jobId.equals(other.jobId)) {
            throw new RefusedException("another job is served here: jobId=" + other.jobId);
        }
        // In constant time: how long it takes must not tell how much of a guess was right.
        if (!MessageDigest.isEqual(
                secret.getBytes(StandardCharsets.UTF_8), other.secret.getBytes(StandardCharsets.UTF_8))) {
            throw new RefusedException("wrong secret: jobId=" + jobId);
        }
        return other;
    }

    /** Greets as the end that connected, and returns the other's greeting. */
    Hello greet(InputStream in, OutputStream out) throws IOException {
        write(out);
        try {
            return readAndCompare(in);
        } catch (EOFException e) {
            throw new IOException("the other end closed the connection at the greeting", e);
        }
    }

    /** Answers as the end that accepted: a stranger gets the reason. */
    Hello answer(InputStream in, OutputStream out) throws IOException {
        Hello other;
        try {
            other = readAndCompare(in);
        } catch (RefusedException e) {
            writeAnswer(out, REFUSED, e.getMessage());
            throw e;
        }
        write(out);
        return other;
    }

    /** The secret stays out of logs. */
    @Override
    public String toString() {
        return "Hello[purpose=" + purpose + " jobId=" + jobId + " rank=" + rank + "]";
    }
}
