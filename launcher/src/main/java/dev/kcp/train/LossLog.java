package dev.kcp.train;

import dev.kcp.KcpException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;

/** Writes one JSON line per step, {@code {"step":1,"loss":5.54}}, whole lines as they come. */
public final class LossLog implements TrainListener, AutoCloseable {
    private final Path file;
    private final Writer writer;

    /**
     * Creates the file, or empties it.
     *
     * @throws KcpException with {@code BAD_DATA} if it cannot be written
     */
    public LossLog(Path file) {
        this.file = file;
        try {
            this.writer = Files.newBufferedWriter(file);
        } catch (IOException failure) {
            throw new KcpException(
                    KcpException.Code.BAD_DATA,
                    "the loss log cannot be written: file=" + file + " cause=" + FileFailures.reason(failure),
                    failure);
        }
    }

    @Override
    public void onStep(int step, double loss, double tokensPerSecond) {
        try {
            writer.write("{\"step\":" + step + ",\"loss\":" + loss + "}\n");
            writer.flush();
        } catch (IOException failure) {
            throw new UncheckedIOException("the loss log cannot be written: file=" + file, failure);
        }
    }

    @Override
    public void close() {
        try {
            writer.close();
        } catch (IOException failure) {
            throw new UncheckedIOException("the loss log cannot be closed: file=" + file, failure);
        }
    }
}
