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
import java.util.Arrays;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Writes one JSON line per step, {@code {"step":1,"loss":5.54}}, with {@code "held_out_loss"} where there is one, whole
 * lines as they come. A run that is gone on with keeps the lines of the steps before, each step's once and in order; torn
 * ones are dropped. Lines of steps that a saved state knows are on the disk before the state is.
 */
public final class LossLog implements TrainListener, AutoCloseable {
    /** A line that is whole: torn ones and two that were glued together have a brace inside, or none at the end. */
    private static final Pattern LINE = Pattern.compile("\\{\"step\":(\\d{1,18}),\"loss\":[^{}]+}");

    private final Path file;
    private final FileChannel channel;
    private String heldOut = "";

    /**
     * Creates the file if it is not there.
     *
     * @throws KcpException with {@code BAD_DATA} if it cannot be written
     * @throws IllegalArgumentException if the path is empty
     */
    public LossLog(Path file) {
        if (file.toString().isEmpty()) {
            throw new IllegalArgumentException("the loss log has an empty path: file=");
        }
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
            byte[] old = stepsBefore == 0 ? new byte[0] : Files.readAllBytes(file);
            byte[] kept = linesUntil(stepsBefore, old);
            int differs = Arrays.mismatch(old, kept);
            int same = differs < 0 ? kept.length : differs;
            // Changed from where it differs, not written anew: whoever kills this process here loses no line before.
            channel.position(same);
            write(ByteBuffer.wrap(kept, same, kept.length - same));
            channel.truncate(kept.length);
        } catch (IOException failure) {
            throw failed(failure);
        }
    }

    private void write(ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            channel.write(bytes);
        }
    }

    /** The whole lines of steps up to one, in the steps' order; of a step that was written twice the later. */
    private static byte[] linesUntil(long lastStep, byte[] text) {
        SortedMap<Long, String> lines = new TreeMap<>();
        new String(text, StandardCharsets.ISO_8859_1).lines().forEach(line -> {
            Matcher whole = LINE.matcher(line);
            if (whole.matches() && Long.parseLong(whole.group(1)) <= lastStep) {
                lines.put(Long.parseLong(whole.group(1)), line + "\n");
            }
        });
        return String.join("", lines.values()).getBytes(StandardCharsets.ISO_8859_1);
    }

    @Override
    public void onSave(int step) {
        try {
            if (Files.isRegularFile(file)) {
                channel.force(true);
            }
        } catch (IOException failure) {
            throw failed(failure);
        }
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
            write(line);
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
