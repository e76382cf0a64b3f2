package dev.kcp.train;

import dev.kcp.KcpException;
import dev.kcp.files.FileFailures;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * Writes one JSON line per step, {@code {"step":1,"loss":5.54}}, with {@code "held_out_loss"} where there is one, whole
 * lines as they come. A run that is gone on with keeps the lines of the steps before.
 */
public final class LossLog implements TrainListener, AutoCloseable {
    private final Path file;
    private final FileChannel channel;
    private String heldOut = "";

    /**
     * Creates the file if it is not there.
     *
     * @throws KcpException with {@code BAD_DATA} if it cannot be written
     */
    public LossLog(Path file) {
        this.file = file;
        try {
            this.channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        } catch (IOException failure) {
            throw failed(failure);
        }
    }

    private KcpException failed(IOException failure) {
        return new KcpException(
                KcpException.Code.BAD_DATA,
                "the loss log cannot be written: file=" + file + " cause=" + FileFailures.reason(failure),
                failure);
    }

    @Override
    public void onBegin(int stepsBefore) {
        if (!Files.isRegularFile(file)) {
            return; // A device or pipe holds no lines.
        }
        try {
            // Cut, not written anew: whoever kills this process here loses nothing.
            channel.truncate(stepsBefore == 0 ? 0 : endOfLine(Files.readAllBytes(file), stepsBefore));
            channel.position(channel.size());
        } catch (IOException failure) {
            throw failed(failure);
        }
    }

    private static int endOfLine(byte[] text, int lines) {
        int left = lines;
        for (int i = 0; i < text.length; i++) {
            if (text[i] == '\n' && --left == 0) {
                return i + 1;
            }
        }
        return text.length;
    }

    @Override
    public void onHeldOut(int step, double loss) {
        heldOut = ",\"held_out_loss\":" + loss;
    }

    @Override
    public void onStep(int step, double loss, double tokensPerSecond) {
        try {
            ByteBuffer line = ByteBuffer.wrap(
                    ("{\"step\":" + step + ",\"loss\":" + loss + heldOut + "}\n").getBytes(StandardCharsets.US_ASCII));
            heldOut = "";
            while (line.hasRemaining()) {
                channel.write(line);
            }
        } catch (IOException failure) {
            throw failed(failure);
        }
    }

    @Override
    public void close() {
        try {
            channel.close();
        } catch (IOException failure) {
            throw failed(failure);
        }
    }
}
