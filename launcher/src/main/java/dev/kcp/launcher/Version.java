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
        String commit = commit();
        return "kcp " + build().getProperty("version") + (commit.isEmpty() ? "" : " (commit " + commit + ")");
    }

    /** The commit that was built, with {@code -dirty} where files differed from it; empty where the build knew none. */
    static String commit() {
        String commit = build().getProperty("commit", "");
        return commit.matches("[0-9a-f]{7,40}(-dirty)?") ? commit : "";
    }

    private static Properties build() {
        Properties build = new Properties();
        try (InputStream in = Version.class.getResourceAsStream("build.properties")) {
            build.load(in);
            return build;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
