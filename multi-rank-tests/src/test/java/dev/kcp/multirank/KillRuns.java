package dev.kcp.multirank;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.kcp.conv.Eventually;
import dev.kcp.tensor.Safetensors;
import dev.kcp.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.stream.Stream;

/**
 * A training run that is killed again and again, beside the same run that is not: SIGKILL to one rank or to all processes
 * right after a random step was logged, then the same command once more. Started by hand it makes
 * {@code benchmarks/kills.json}:
 *
 * <pre>
 * java ... dev.kcp.multirank.KillRuns KILLS STEPS OUT.json
 * </pre>
 */
final class KillRuns {
    static final int EVERY = 4;

    private final Path folder;
    private final int steps;
    private final Random random;
    private final List<Kill> kills = new ArrayList<>();

    /**
     * One kill.
     *
     * @param step the last step in the loss log when it struck
     * @param world ranks of the run that it struck
     * @param victim {@code rank 1} or {@code all processes}
     * @param resumedFrom step of the state that the next run went on from
     */
    record Kill(int step, int world, String victim, int resumedFrom) {}

    /**
     * What came of it.
     *
     * @param losses of every step, as the killed run logged them
     * @param unbrokenLosses as the unbroken run did
     * @param differingTensors of the last saved states
     */
    record Outcome(
            List<Kill> kills,
            List<Double> losses,
            List<Double> unbrokenLosses,
            int tensors,
            List<String> differingTensors) {}

    KillRuns(Path folder, int steps, long seed) {
        this.folder = folder;
        this.steps = steps;
        this.random = new Random(seed);
    }

    Outcome run(int count) throws IOException {
        Path text = folder.resolve("text.txt");
        Files.writeString(text, text());
        SavingRun unbroken = saving(text, "unbroken");
        end(unbroken.start(1));
        SavingRun broken = saving(text, "broken");
        int from = 0;
        for (int i = 0; i < count; i++) {
            // Each strikes in a part of the run of its own, so that every run gets somewhere before it dies.
            int target = (int) ((long) steps * i / (count + 1)) + 1 + random.nextInt(steps / (count + 1));
            from = strike(broken, target, i == 0 ? -1 : from);
        }
        KcpProcess.Result last = end(broken.start(2));
        note(resumedFrom(last.err()));
        List<String> differing = new ArrayList<>();
        int tensors = compare(lastState(broken.states()), lastState(unbroken.states()), differing);
        return new Outcome(
                List.copyOf(kills),
                losses(broken.lossLog()),
                losses(unbroken.lossLog()),
                tensors,
                List.copyOf(differing));
    }

    /** Starts a run, kills it once it has made the step, and waits until all of it is gone. */
    private int strike(SavingRun run, int target, int before) throws IOException {
        int world = 1 + random.nextInt(3);
        try (KcpProcess kcp = run.start(world)) {
            Eventually.reach("step " + target, () -> losses(run.lossLog()).size() >= target || !kcp.isAlive());
            if (!kcp.isAlive()) {
                throw new AssertionError("the run ended before it was killed: target=" + target + " out=" + kcp.out()
                        + " err=" + kcp.err());
            }
            int step = losses(run.lossLog()).size();
            int victim = random.nextInt(world + 1);
            // A rank's guard has the same variables; it is a shell.
            String java = ProcessHandle.current().info().command().orElseThrow();
            List<LiveProcesses.Found> processes = kcp.processes();
            List<LiveProcesses.Found> killed = processes.stream()
                    .filter(found ->
                            victim == world || found.command().startsWith(java) && (world == 1 || found.isRank(victim)))
                    .toList();
            killed.forEach(found -> ProcessHandle.of(found.pid()).ifPresent(ProcessHandle::destroyForcibly));
            if (before >= 0) {
                note(resumedFrom(kcp.err()));
            }
            kills.add(new Kill(step, world, victim == world ? "all processes" : "rank " + victim, -1));
            Eventually.atMost("processes left", 0, () -> kcp.processes().size());
            return step;
        }
    }

    private void note(int resumedFrom) {
        Kill last = kills.removeLast();
        kills.add(new Kill(last.step(), last.world(), last.victim(), resumedFrom));
    }

    private static int resumedFrom(String err) {
        int at = err.indexOf("goes on from ");
        if (at < 0) {
            return 0;
        }
        int begin = err.indexOf("step=", at) + "step=".length();
        int end = begin;
        while (end < err.length() && Character.isDigit(err.charAt(end))) {
            end++;
        }
        return Integer.parseInt(err.substring(begin, end));
    }

    private SavingRun saving(Path text, String states) {
        return new SavingRun(text, folder.resolve(states), 192, steps, EVERY);
    }

    private static KcpProcess.Result end(KcpProcess started) {
        try (started) {
            KcpProcess.Result result = started.await();
            if (result.exitCode() != 0) {
                throw new AssertionError("exit code " + result.exitCode() + ": " + result.err());
            }
            return result;
        }
    }

    private static List<Double> losses(Path log) {
        try {
            List<Double> losses = new ArrayList<>();
            for (String line : Files.exists(log) ? Files.readAllLines(log) : List.<String>of()) {
                if (line.endsWith("}")) {
                    JsonNode entry = new ObjectMapper().readTree(line);
                    if (entry.get("step").asInt() != losses.size() + 1) {
                        throw new AssertionError("steps are not in order: line=" + line);
                    }
                    losses.add(entry.get("loss").asDouble());
                }
            }
            return losses;
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    private static Path lastState(Path states) throws IOException {
        try (Stream<Path> files = Files.list(states)) {
            return files.filter(file -> file.toString().endsWith(".safetensors"))
                    .max(Comparator.naturalOrder())
                    .orElseThrow();
        }
    }

    /** @return tensors compared */
    private static int compare(Path file, Path otherFile, List<String> differing) {
        try (Safetensors one = Safetensors.open(file);
                Safetensors other = Safetensors.open(otherFile)) {
            if (!one.names().equals(other.names()) || !one.metadata().equals(other.metadata())) {
                differing.add("names or metadata");
            }
            for (String name : one.names()) {
                try (Tensor mine = one.read(name);
                        Tensor theirs = other.read(name)) {
                    if (mine.segment().mismatch(theirs.segment()) >= 0) {
                        differing.add(name);
                    }
                }
            }
            return one.names().size();
        }
    }

    /** A few thousand words in documents of a line to a page. */
    private static String text() {
        Random words = new Random(5);
        String[] vocabulary = {"rank", "row", "halo", "token", "document", "sends", "waits", "for", "the", "next"};
        StringBuilder text = new StringBuilder();
        for (int document = 0; document < 120; document++) {
            for (int word = words.nextInt(60); word >= 0; word--) {
                text.append(vocabulary[words.nextInt(vocabulary.length)]).append(word % 9 == 0 ? "\n" : " ");
            }
            text.append("\n\n");
        }
        return text.toString();
    }

    public static void main(String[] args) throws IOException {
        if (args.length != 3) {
            System.err.println("usage: KillRuns KILLS STEPS OUT.json");
            System.exit(2);
        }
        int count = Integer.parseInt(args[0]);
        int steps = Integer.parseInt(args[1]);
        long seed = 1;
        long begin = System.nanoTime();
        Outcome outcome = new KillRuns(Files.createTempDirectory("kcp-kills-"), steps, seed).run(count);
        boolean isSame = outcome.losses().equals(outcome.unbrokenLosses())
                && outcome.differingTensors().isEmpty();
        ObjectMapper mapper = new ObjectMapper();
        ObjectNode json = mapper.createObjectNode();
        json.put("made_by", "dev.kcp.multirank.KillRuns " + String.join(" ", args));
        json.put("seed", seed);
        json.put("steps", steps);
        json.put("state_every", EVERY);
        json.put("seconds", Math.round((System.nanoTime() - begin) / 1e9));
        ArrayNode kills = json.putArray("kills");
        for (Kill kill : outcome.kills()) {
            kills.addObject()
                    .put("after_step", kill.step())
                    .put("ranks", kill.world())
                    .put("killed", kill.victim())
                    .put("resumed_from", kill.resumedFrom());
        }
        json.put("losses_compared", outcome.losses().size());
        json.put("tensors_compared", outcome.tensors());
        json.put("final_loss", outcome.losses().getLast());
        json.put("same_bits", isSame);
        ArrayNode differing = json.putArray("differing_tensors");
        outcome.differingTensors().forEach(differing::add);
        Files.writeString(
                Path.of(args[2]), mapper.writerWithDefaultPrettyPrinter().writeValueAsString(json) + "\n");
        System.out.println(String.format(
                Locale.ROOT, "%d kills, same bits: %s", outcome.kills().size(), isSame));
        System.exit(isSame ? 0 : 1);
    }
}
