package dev.kcp.launcher;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;

/** Stdout or stderr of this process, without a buffer. A write that fails tells a reader who left from a full disk. */
final class StandardStream extends OutputStream {
    private static final int FILE_TYPE = 0170000;
    private static final int PIPE = 0010000;
    private static final int SOCKET = 0140000;

    /** The other end of a pipe was closed. */
    static final class ReaderGone extends IOException {
        private static final long serialVersionUID = 1L;

        ReaderGone(IOException cause) {
            super("the reader is gone", cause);
        }
    }

    private final FileOutputStream stream;
    private final Path opened;

    private StandardStream(FileDescriptor descriptor, int number) {
        stream = new FileOutputStream(descriptor);
        opened = Path.of("/proc/self/fd/" + number);
    }

    static StandardStream out() {
        return new StandardStream(FileDescriptor.out, 1);
    }

    static StandardStream err() {
        return new StandardStream(FileDescriptor.err, 2);
    }

    @Override
    public void write(int one) throws IOException {
        write(new byte[] {(byte) one}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int begin, int length) throws IOException {
        try {
            stream.write(bytes, begin, length);
        } catch (IOException e) {
            throw isPipe() ? new ReaderGone(e) : e;
        }
    }

    /** The error's own text is in the user's language; a pipe and a socket refuse bytes for one reason only. */
    private boolean isPipe() {
        try {
            int type = (int) Files.getAttribute(opened, "unix:mode") & FILE_TYPE;
            return type == PIPE || type == SOCKET;
        } catch (IOException unknown) {
            return false;
        }
    }
}
