package dev.kcp.comm;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * A file in which rank 0 says where its store listens, for ranks that share a file system and nothing else. It holds the
 * job's secret, so it is readable by its owner alone, and one that others could read or have written is refused.
 *
 * @param path the file; absolute
 * @param oneHost whether all ranks are on this host, so that the store need not be seen from others
 */
public record RendezvousFile(Path path, boolean oneHost) {
    private static final String HEADING = "kcp rendezvous 1";
    private static final Set<PosixFilePermission> OWNER_ONLY = EnumSet.of(
            PosixFilePermission.OWNER_READ, PosixFilePermission.OWNER_WRITE, PosixFilePermission.OWNER_EXECUTE);

    /**
     * What the file says.
     *
     * @param communicator which of the job's communicators the store serves
     */
    record Entry(String communicator, HostAndPort store, String jobId, String secret) {
        /** The secret stays out of logs. */
        @Override
        public String toString() {
            return "Entry[communicator=" + communicator + " store=" + store + " jobId=" + jobId + "]";
        }
    }

    /** The file of a job on this host, in a folder of this user alone below the temporary folder. */
    static RendezvousFile ofJob(String job) {
        Path folder =
                Path.of(System.getProperty("java.io.tmpdir"), "kcp-rendezvous-" + System.getProperty("user.name"));
        return new RendezvousFile(folder.toAbsolutePath().resolve(job.replaceAll("[^A-Za-z0-9.-]", "_")), true);
    }

    /**
     * Writes the file; a reader sees all of it or nothing. What an earlier job left under the name is replaced.
     *
     * @throws KcpException RENDEZVOUS if it cannot be written
     */
    void write(Entry entry) {
        String text = HEADING + "\ncommunicator=" + entry.communicator() + "\nstore=" + entry.store() + "\njob="
                + entry.jobId() + "\nsecret=" + entry.secret() + "\n";
        try {
            if (oneHost) {
                makePrivateFolder();
            }
            if (Files.exists(path, LinkOption.NOFOLLOW_LINKS)
                    && !Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS)) {
                throw new IOException("a device, link or folder has its name");
            }
            Path draft = Files.createTempFile(path.getParent(), ".kcp-rendezvous-", ".tmp", ownerOnly("rw-------"));
            try {
                Files.writeString(draft, text);
                Files.move(draft, path, StandardCopyOption.ATOMIC_MOVE);
            } catch (AtomicMoveNotSupportedException e) {
                throw new IOException("this file system cannot rename", e);
            } finally {
                Files.deleteIfExists(draft);
            }
        } catch (IOException e) {
            throw new KcpException(
                    Code.RENDEZVOUS, "rank 0 cannot write the rendezvous file (" + reason(e) + "): file=" + path, e);
        }
    }

    /**
     * Reads the file.
     *
     * @return empty where it is not there yet
     * @throws KcpException RENDEZVOUS if it is not this user's own, or no such file
     */
    Optional<Entry> read() {
        try {
            if (oneHost) {
                requirePrivate(path.getParent());
            }
            requirePrivate(path);
            return Optional.of(parse(Files.readString(path, StandardCharsets.UTF_8)));
        } catch (NoSuchFileException _) {
            return Optional.empty();
        } catch (IOException e) {
            throw new KcpException(
                    Code.RENDEZVOUS, "the rendezvous file cannot be used (" + reason(e) + "): file=" + path, e);
        }
    }

    /** Removes the file if it still says what this job wrote. */
    void remove(Entry entry) {
        try {
            if (read().filter(entry::equals).isPresent()) {
                Files.deleteIfExists(path);
            }
        } catch (IOException | KcpException left) {
            System.getLogger(RendezvousFile.class.getName())
                    .log(System.Logger.Level.DEBUG, "rendezvous file stays: file=" + path, left);
        }
    }

    private Entry parse(String text) throws IOException {
        Map<String, String> fields = new HashMap<>();
        String[] lines = text.split("\n");
        for (String line : lines) {
            int equals = line.indexOf('=');
            if (equals > 0) {
                fields.put(line.substring(0, equals), line.substring(equals + 1));
            }
        }
        if (!lines[0].equals(HEADING)
                || !fields.keySet().containsAll(Set.of("communicator", "store", "job", "secret"))) {
            throw new IOException("it is no rendezvous file of this version");
        }
        try {
            return new Entry(
                    fields.get("communicator"),
                    HostAndPort.parse(fields.get("store")),
                    fields.get("job"),
                    fields.get("secret"));
        } catch (IllegalArgumentException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    private void makePrivateFolder() throws IOException {
        try {
            Files.createDirectory(path.getParent(), ownerOnly("rwx------"));
        } catch (FileAlreadyExistsException _) {
            requirePrivate(path.getParent());
        }
    }

    /** Refuses links, other owners, and what anyone else may read or write. */
    private static void requirePrivate(Path place) throws IOException {
        PosixFileAttributes found = Files.readAttributes(place, PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
        Object me = Files.getAttribute(Path.of("/proc/self"), "unix:uid");
        Object owner = Files.getAttribute(place, "unix:uid", LinkOption.NOFOLLOW_LINKS);
        if (found.isSymbolicLink() || !me.equals(owner) || !OWNER_ONLY.containsAll(found.permissions())) {
            throw new IOException("others could read or have written it; wanted: no link, mode "
                    + (found.isDirectory() ? "700" : "600") + ", owner " + me + "; found: " + place
                    + (found.isSymbolicLink() ? " is a link" : "") + " mode "
                    + PosixFilePermissions.toString(found.permissions()) + " owner " + owner);
        }
    }

    private static FileAttribute<Set<PosixFilePermission>> ownerOnly(String permissions) {
        return PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(permissions));
    }

    /** The file system's own exceptions have little more than the path for a message. */
    private static String reason(IOException e) {
        return e instanceof FileSystemException || e.getMessage() == null ? e.toString() : e.getMessage();
    }

    @Override
    public String toString() {
        return path.toString();
    }
}
