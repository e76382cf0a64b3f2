package dev.kcp.launcher;

import java.io.IOException;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Collects what ranks left behind where this process is the first of its container: the kernel gives it all orphans, and
 * one that has ended keeps its process id until somebody asks for its status. The JVM asks for its own children only.
 */
final class OrphanReaper {
    private static final long LOOK_NANOS = TimeUnit.SECONDS.toNanos(1);
    private static final int WNOHANG = 1;

    private final ProcessStat own =
            ProcessStat.of(ProcessHandle.current().pid()).orElseThrow();
    private final MethodHandle waitpid;
    private long lookedNanos = System.nanoTime();

    @SuppressWarnings("restricted")
    OrphanReaper() {
        Linker linker = Linker.nativeLinker();
        this.waitpid = linker.downcallHandle(
                linker.defaultLookup().findOrThrow("waitpid"),
                FunctionDescriptor.of(
                        ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.JAVA_INT));
    }

    /**
     * Looks, at most once a second.
     *
     * @param guards children in sessions of their own that the JVM waits for; all others are in this process's
     */
    void reap(List<Long> guards) {
        if (System.nanoTime() - lookedNanos < LOOK_NANOS) {
            return;
        }
        lookedNanos = System.nanoTime();
        try (DirectoryStream<Path> all = Files.newDirectoryStream(Path.of("/proc"), "[0-9]*")) {
            for (Path process : all) {
                ProcessStat.of(Long.parseLong(process.getFileName().toString()))
                        .filter(found -> found.isZombie()
                                && found.parent() == own.pid()
                                && found.session() != own.session()
                                && !guards.contains(found.pid()))
                        .ifPresent(orphan -> collect((int) orphan.pid()));
            }
        } catch (IOException hidden) {
            // Without /proc nothing is known of orphans.
        }
    }

    private void collect(int pid) {
        try {
            int ignored = (int) waitpid.invokeExact(pid, MemorySegment.NULL, WNOHANG);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }
}
