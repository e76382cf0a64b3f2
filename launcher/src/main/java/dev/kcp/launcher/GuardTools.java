package dev.kcp.launcher;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * The system's programs that a rank and its guard are started through.
 *
 * @param session begins a session of its own
 * @param boundSession the same, and has the kernel kill the program once its parent is gone, where this system can
 */
record GuardTools(List<String> session, List<String> boundSession) {
    GuardTools {
        session = List.copyOf(session);
        boundSession = List.copyOf(boundSession);
    }

    /**
     * Finds them.
     *
     * @param path this process's PATH, or null
     * @throws dev.kcp.KcpException MISSING_DEVICE if ranks cannot have sessions of their own
     */
    static GuardTools find(String path) {
        List<String> session = List.of(Programs.setsid(path).toString());
        List<String> bound = new ArrayList<>(session);
        Optional<Path> setpriv = Programs.find("setpriv", path);
        if (setpriv.isPresent() && knowsParentDeath(setpriv.get())) {
            bound.addAll(List.of(setpriv.get().toString(), "--pdeathsig", "KILL", "--"));
        }
        return new GuardTools(session, bound);
    }

    /** Older ones and those of busybox lack the option. Looking into the program costs less than starting it. */
    private static boolean knowsParentDeath(Path setpriv) {
        try {
            return Files.readString(setpriv, StandardCharsets.ISO_8859_1).contains("pdeathsig");
        } catch (IOException unreadable) {
            return false;
        }
    }
}
