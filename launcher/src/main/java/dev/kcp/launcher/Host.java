package dev.kcp.launcher;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** This machine's name, asked of the kernel: a name service may be slow or absent. */
final class Host {
    private Host() {}

    static String name() {
        try {
            return Files.readString(Path.of("/proc/sys/kernel/hostname")).strip();
        } catch (IOException notLinux) {
            return "localhost";
        }
    }
}
