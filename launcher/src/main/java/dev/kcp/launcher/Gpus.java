package dev.kcp.launcher;

import dev.kcp.KcpException;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** NVIDIA GPUs as programs of this process would see them, told by the driver's files: no library is loaded. */
final class Gpus {
    static final String VISIBLE = "CUDA_VISIBLE_DEVICES";

    private Gpus() {}

    /**
     * Names of the visible GPUs, in the order in which programs number them: those of CUDA_VISIBLE_DEVICES, which may be
     * indices, UUIDs or MIG ids, or else the indices of all.
     *
     * @param visible the value of CUDA_VISIBLE_DEVICES, or null where it is not set
     * @param present how many the driver has
     */
    static List<String> visible(String visible, int present) {
        List<String> names = new ArrayList<>();
        if (visible == null) {
            for (int index = 0; index < present; index++) {
                names.add(Integer.toString(index));
            }
            return names;
        }
        for (String name : visible.split(",", -1)) {
            String entry = name.strip();
            // As the driver reads the list: the first entry that names no device ends it.
            boolean isIndex = entry.matches("\\d{1,4}");
            if (isIndex ? Integer.parseInt(entry) >= present : present == 0 || !entry.matches("(GPU|MIG)-.+")) {
                break;
            }
            names.add(entry);
        }
        return names;
    }

    /** How many GPUs the driver has. */
    static int present() {
        int listed = entries(Path.of("/proc/driver/nvidia/gpus"), "*");
        return listed > 0 ? listed : entries(Path.of("/dev"), "nvidia[0-9]*");
    }

    private static int entries(Path folder, String glob) {
        int count = 0;
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(folder, glob)) {
            for (Path ignored : entries) {
                count++;
            }
        } catch (IOException none) {
            return 0;
        }
        return count;
    }

    /**
     * The list for CUDA_VISIBLE_DEVICES that a user asked for.
     *
     * @throws IllegalArgumentException if an entry is no device name, or one comes twice
     */
    static List<String> parse(String devices) {
        List<String> names = new ArrayList<>();
        for (String name : devices.split(",", -1)) {
            String entry = name.strip();
            if (!entry.matches("\\d{1,4}|(GPU|MIG)-[A-Za-z0-9/-]+")) {
                throw new IllegalArgumentException(
                        "not an index, GPU-<uuid> or MIG-<uuid>: device=" + entry + " devices=" + devices);
            }
            if (names.contains(entry)) {
                throw new IllegalArgumentException("a device is there twice: device=" + entry + " devices=" + devices);
            }
            names.add(entry);
        }
        return names;
    }

    /** @throws KcpException MISSING_DEVICE if there are fewer devices than ranks */
    static void requireOneEach(List<String> visible, int ranks) {
        if (visible.size() < ranks) {
            throw new KcpException(
                    KcpException.Code.MISSING_DEVICE,
                    "each rank wants a GPU of its own: visible=" + visible.size() + " wanted=" + ranks + " devices="
                            + visible);
        }
    }
}
