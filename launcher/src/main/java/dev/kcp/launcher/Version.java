package dev.kcp.launcher;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Properties;
import picocli.CommandLine.IVersionProvider;

/** Version and git commit, as the build wrote them into the jar. */
final class Version implements IVersionProvider {
    @Override
    public String[] getVersion() {
        return new String[] {text()};
    }

    /** {@code kcp 0.1.0 (commit 1a2b3c4)}, without the commit where the build knew none. */
    static String text() {
        Properties build = new Properties();
        try (InputStream in = Version.class.getResourceAsStream("build.properties")) {
            build.load(in);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        String commit = build.getProperty("commit", "");
        boolean known = commit.matches("[0-9a-f]{7,40}(-dirty)?");
        return "kcp " + build.getProperty("version") + (known ? " (commit " + commit + ")" : "");
    }
}
