package dev.kcp.comm;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.kcp.files.WholeFile;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.TreeSet;
import java.util.function.Supplier;

/**
 * The latest collective calls of one rank, of all its groups. Costs a few objects per call; written on request, or by itself
 * when the group fails, as JSON lines: first the rank and why, then a line per call, oldest first. {@link CallMerge} reads
 * the files of all ranks. Used from any thread.
 */
public final class CallRecorder {
    private static final int KEPT_CALLS = 256;
    private static final System.Logger LOG = System.getLogger(CallRecorder.class.getName());

    private final int rank;
    private final int size;
    private final String transport;
    private final Deque<Entry> entries = new ArrayDeque<>();
    private volatile Path failureFile;
    private volatile CallProgress progress;
    private volatile Supplier<String> waiting;
    private volatile boolean open = true;

    CallRecorder(int rank, int size, String transport) {
        this.rank = rank;
        this.size = size;
        this.transport = transport;
    }

    /** One call, while it runs and after. */
    final class Entry {
        private final String group;
        private final long call;
        private final Call record;
        private final Instant started = Instant.now();
        private final ExchangeEvent event = new ExchangeEvent();
        private final TreeSet<Integer> peers = new TreeSet<>();
        private long sentBytes;
        private Instant finished;

        private Entry(String group, long call, Call record) {
            this.group = group;
            this.call = call;
            this.record = record;
            event.begin();
        }

        synchronized void sent(int peer, long bytes) {
            sentBytes += bytes;
            if (bytes > 0) {
                peers.add(peer);
            }
        }

        synchronized void awaits(int peer) {
            peers.add(peer);
        }

        synchronized void finish() {
            finished = Instant.now();
            progressed();
            event.end();
            if (event.shouldCommit()) {
                event.group = group;
                event.call = call;
                event.kind = record.kind().name();
                event.label = record.label();
                event.sentBytes = sentBytes;
                event.peers = peers.toString();
                event.commit();
            }
        }

        private synchronized ObjectNode json(ObjectMapper mapper) {
            ObjectNode json = mapper.createObjectNode();
            json.put("group", group).put("call", call);
            json.put("kind", record.kind().name()).put("label", record.label());
            json.put("channels", record.channels());
            json.put("dtype", record.dtype() == null ? null : record.dtype().name());
            json.put("plan", Long.toHexString(record.planDigest()));
            json.put("sent_bytes", sentBytes);
            ArrayNode list = json.putArray("peers");
            peers.forEach(list::add);
            json.put("started", started.toString());
            json.put("finished", finished == null ? null : finished.toString());
            return json;
        }
    }

    Entry begin(String group, long call, Call record) {
        Entry entry = new Entry(group, call, record);
        synchronized (entries) {
            if (entries.size() == KEPT_CALLS) {
                entries.removeFirst();
            }
            entries.addLast(entry);
        }
        CallProgress kept = progress;
        if (kept != null) {
            kept.begin("call " + call + " " + record + " of group " + group);
        }
        return entry;
    }

    private void progressed() {
        CallProgress kept = progress;
        if (kept != null) {
            kept.finish();
        }
    }

    /**
     * The rank begins to wait until all have stated something, which is no call but may last as long.
     *
     * @param state what it still waits for, asked when the calls are written, by a thread without locks
     */
    void waitsFor(String what, Supplier<String> state) {
        waiting = state;
        CallProgress kept = progress;
        if (kept != null) {
            kept.begin("the wait for " + what);
        }
    }

    /** What was waited for has come. */
    void waitOver() {
        waiting = null;
        progressed();
    }

    /**
     * Keeps the record where a launcher looks for it: as {@link #writeOnFailure}, and how far this rank is while it runs.
     *
     * @param folder an existing folder, the same for all ranks of a host
     * @throws UncheckedIOException if nothing can be written there
     */
    public void keepIn(Path folder) {
        writeOnFailure(file(folder, rank));
        progress = CallProgress.open(progressFile(folder, rank));
    }

    /** Where {@link #keepIn} has a rank write its calls. */
    public static Path file(Path folder, int rank) {
        return folder.resolve("rank" + rank + ".jsonl");
    }

    /** Where {@link #keepIn} has a rank write how far it is; read by {@link CallProgress#read}. */
    public static Path progressFile(Path folder, int rank) {
        return folder.resolve("rank" + rank + ".progress");
    }

    /** Writes the calls to this file when the group fails: a passed deadline, an abort, a lost rank. Null: nowhere. */
    public void writeOnFailure(Path file) {
        failureFile = file;
    }

    /** Whether the rank has yet to close the last of its communicators. */
    public boolean isOpen() {
        return open;
    }

    void closed() {
        open = false;
        CallProgress kept = progress;
        if (kept != null) {
            kept.close();
        }
    }

    void failed(Failure failure) {
        Path file = failureFile;
        if (file != null) {
            try {
                write(file, failure.message());
            } catch (UncheckedIOException e) {
                failureFile = null;
                LOG.log(System.Logger.Level.WARNING, e.getMessage() + " reason=" + e.getCause());
            }
        }
    }

    /**
     * Writes the calls so far.
     *
     * @throws UncheckedIOException if the file cannot be written
     */
    public void write(Path file) {
        write(file, null);
    }

    private synchronized void write(Path file, String reason) {
        ObjectMapper mapper = new ObjectMapper();
        List<String> lines = new ArrayList<>();
        ObjectNode head = mapper.createObjectNode();
        head.put("rank", rank).put("size", size).put("transport", transport);
        head.put("reason", reason).put("written", Instant.now().toString());
        Supplier<String> wait = waiting;
        head.put("waits_for", wait == null ? null : wait.get());
        lines.add(head.toString());
        synchronized (entries) {
            entries.forEach(entry -> lines.add(entry.json(mapper).toString()));
        }
        try {
            // Whoever reads while a rank writes finds the whole file, before or after.
            WholeFile.write(file, String.join("\n", lines) + "\n");
        } catch (IOException e) {
            throw new UncheckedIOException("cannot write the last calls: file=" + file, e);
        }
    }
}
