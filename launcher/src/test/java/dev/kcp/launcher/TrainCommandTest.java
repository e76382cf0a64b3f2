package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.kcp.conv.Eventually;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;

class TrainCommandTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String[] SMALL = {
        "--layers", "2", "--channels", "16", "--tokens", "256", "--steps", "4", "--align", "16"
    };

    @TempDir
    Path folder;

    private Path text;

    private record Ended(int code, List<String> out, List<String> err) {}

    @BeforeEach
    void writeText() throws IOException {
        text = Files.writeString(
                folder.resolve("text.txt"), "one rank sends\nrows to the next\n\nand waits\n\n".repeat(20));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "2 | --world 0 | world=0",
                "2 | --world -1 | world=-1",
                "2 | --world 5000 | world=5000",
                "2 | --world two | two",
                "2 | --channels 12 | channels=12",
                "2 | --channels 0 | channels=0",
                "2 | --layers 0 | layers=0",
                "2 | --tokens 0 | tokens=0",
                "2 | --steps 0 | steps=0",
                "2 | --align 0 | align=0",
                "2 | --same-bits --align 16 | align=16",
                "2 | --layout spiral | layout=spiral",
                "2 | --learning-rate NaN | learning-rate=NaN",
                "2 | --weight-decay -1 | weightDecay=-1.0",
                "2 | --clip 0 | clip=0.0",
                "2 | --deadline 0 | deadline=0",
                "2 | --threads 0 | threads=0",
                "2 | --device tpu | tpu",
                "2 | --frobnicate | frobnicate",
                "2 | --micro-steps 0 | micro-steps=0",
                "2 | --documents paragraph | documents=paragraph",
                "2 | --resume | --save DIR",
                "2 | --new-schedule | --save DIR",
                "2 | --held-out-every 3 | --held-out PATH",
                "2 | --held-out pom.xml --held-out-every 0 | --held-out-every",
                "3 | --held-out /no/such/text.txt | data=/no/such/text.txt",
                "2 | --save states --new-schedule | --new-schedule needs --resume",
                "2 | --every 3 | --every needs --save DIR",
                "2 | --save /tmp/none --every 0 | every=0",
                "2 | --save /tmp/none --keep 0 | keep=0",
                "2 | --plot curve.gif | plot=curve.gif",
                "3 | --plot /no/such/folder/curve.svg | /no/such/folder",
                "3 | --report /no/such/folder/r.html | /no/such/folder",
                "8 | --device cuda | libcuda.so.1",
                "8 | --device cuda --world 2 | libcuda.so.1"
            })
    void optionsThatCannotBeAreRefused(int code, String options, String named) {
        assertRefused(code, named, Map.of(), ("--data " + text + " " + options).split(" "));
    }

    @Test
    void dataIsNeeded() {
        assertRefused(ExitCode.USAGE, "--data", Map.of(), "--world", "2");
    }

    @Test
    void dataThatCannotBeReadIsRefusedBeforeARankStarts() throws IOException {
        Path none = folder.resolve("none");
        Path empty = Files.createFile(folder.resolve("empty.txt"));
        Path binary = Files.write(folder.resolve("binary"), new byte[] {'a', 0, 'b'});
        Path emptyFolder = Files.createDirectory(folder.resolve("folder"));
        for (Path bad : List.of(none, empty, binary, emptyFolder)) {
            assertRefused(ExitCode.BAD_DATA, bad.toString(), Map.of(), "--data", bad.toString(), "--world", "2");
        }
        assertRefused(ExitCode.BAD_DATA, none.toString(), Map.of(), "--data", text.toString(), none.toString());
    }

    @Test
    void lossLogInNoFolderIsRefused() {
        Path log = folder.resolve("none/loss.jsonl");
        assertRefused(
                ExitCode.BAD_DATA, log.toString(), Map.of(), "--data", text.toString(), "--loss-log", log.toString());
    }

    @Test
    void worldThatContradictsTheEnvironmentIsRefused() {
        Map<String, String> rank =
                Map.of("RANK", "1", "WORLD_SIZE", "3", "MASTER_ADDR", "localhost", "MASTER_PORT", "1");
        assertRefused(ExitCode.USAGE, "world=2 WORLD_SIZE=3", rank, "--data", text.toString(), "--world", "2");
    }

    @Test
    void oneRankTrainsInThisProcess() throws IOException {
        Path log = folder.resolve("loss.jsonl");
        Ended ended = inThisProcess(Map.of(), arguments("--data", text.toString(), "--loss-log", log.toString()));
        assertThat(ended.code()).isEqualTo(ExitCode.DONE);
        assertThat(ended.out()).hasSize(5);
        assertThat(ended.out().subList(0, 4)).allMatch(line -> line.startsWith("step "));
        JsonNode summary = JSON.readTree(ended.out().getLast());
        List<Double> losses = losses(log);
        assertThat(losses).hasSize(4);
        assertThat(summary.get("first_loss").asDouble()).isEqualTo(losses.getFirst());
        assertThat(summary.get("final_loss").asDouble()).isEqualTo(losses.getLast());
        assertThat(summary.get("world").asInt()).isEqualTo(1);
        assertThat(summary.get("exchanges").toString()).isEqualTo("{\"forward\":1,\"recompute\":0,\"backward\":1}");
    }

    @Test
    void savedStateOfAnotherRunIsRefusedBeforeARankStarts() {
        String states = folder.resolve("states").toString();
        String[] saved = {"--data", text.toString(), "--save", states};
        assertThat(inThisProcess(Map.of(), arguments(saved)).code()).isEqualTo(ExitCode.DONE);
        String again = "--data " + text + " --save " + states + " " + String.join(" ", SMALL);
        assertRefused(ExitCode.USAGE, "give --resume", Map.of(), (again + " --world 2").split(" "));
        assertRefused(
                ExitCode.USAGE,
                "channels=24 saved channels=16",
                Map.of(),
                (again.replace("--channels 16", "--channels 24") + " --resume --world 2").split(" "));
        assertRefused(
                ExitCode.USAGE, " saved bytes=", Map.of(), (again + " --documents file --resume --world 2").split(" "));
    }

    @Test
    void pageAndPictureOfARunAreWritten() throws IOException {
        Path page = folder.resolve("run.html");
        Path picture = folder.resolve("run.svg");
        Ended ended = inThisProcess(
                Map.of(),
                arguments(
                        "--data",
                        text.toString(),
                        "--micro-steps",
                        "2",
                        "--verify",
                        "--plot",
                        picture.toString(),
                        "--report",
                        page.toString()));
        assertThat(ended.code()).as("%s", ended.err()).isEqualTo(ExitCode.DONE);
        assertThat(Files.readString(page)).contains("512 in 2 batches of 256", "2 forward, 0 recompute, 2 backward");
        assertThat(Files.readString(picture)).contains("<svg");
        assertThat(JSON.readTree(ended.out().getLast()).get("micro_steps").asInt())
                .isEqualTo(2);
    }

    @Test
    void checkpointingCanBeSwitchedOff() throws IOException {
        String[] data = {"--data", text.toString()};
        Ended on = inThisProcess(Map.of(), arguments(data[0], data[1], "--checkpoint"));
        Ended off = inThisProcess(Map.of(), arguments(data[0], data[1], "--no-checkpoint"));
        assertThat(JSON.readTree(off.out().getLast()).get("final_loss"))
                .isEqualTo(JSON.readTree(on.out().getLast()).get("final_loss"));
    }

    @Test
    void threeRanksInProcessesOfTheirOwnFollowTheLossesOfOne() throws Exception {
        Path aloneLog = folder.resolve("alone.jsonl");
        Path log = folder.resolve("three.jsonl");
        inThisProcess(Map.of(), arguments("--data", text.toString(), "--loss-log", aloneLog.toString()));
        Ended ended =
                inAnotherProcess(arguments("--data", text.toString(), "--world", "3", "--loss-log", log.toString()));
        assertThat(ended.code()).as("%s", ended.err()).isEqualTo(ExitCode.DONE);
        JsonNode summary = JSON.readTree(ended.out().getLast());
        assertThat(summary.get("world").asInt()).isEqualTo(3);
        assertThat(summary.get("halo_bytes").get("forward").asLong()).isPositive();
        assertThat(summary.get("exchanges").toString()).isEqualTo("{\"forward\":1,\"recompute\":0,\"backward\":1}");
        List<Double> alone = losses(aloneLog);
        List<Double> together = losses(log);
        assertThat(together.getFirst()).isCloseTo(alone.getFirst(), within(1e-5 * alone.getFirst()));
        assertThat(together.getLast()).isCloseTo(alone.getLast(), within(1e-3 * alone.getLast()));
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource({"a display that is gone,true", "no fonts,false"})
    void picturesNeedNoDisplayAndARunNeedsNoPictures(String surroundings, boolean draws) throws Exception {
        Path page = folder.resolve("run.html");
        Path picture = folder.resolve("run.png");
        Path noFonts = Files.writeString(folder.resolve("fonts.conf"), "<fontconfig/>");
        Ended ended = inAnotherProcess(
                draws
                        ? Map.of("DISPLAY", "localhost:10.0")
                        : Map.of(
                                "FONTCONFIG_FILE",
                                noFonts.toString(),
                                // Not what another run found and keeps in the home.
                                "JDK_JAVA_OPTIONS",
                                "-Duser.home=" + folder),
                arguments("--data", text.toString(), "--plot", picture.toString(), "--report", page.toString()));
        assertThat(ended.code()).as("%s", ended.err()).isEqualTo(ExitCode.DONE);
        assertThat(JSON.readTree(ended.out().getLast()).get("steps").asInt()).isEqualTo(4);
        assertThat(Files.exists(picture)).isEqualTo(draws);
        assertThat(Files.readString(page).contains("alt=\"Loss by step")).isEqualTo(draws);
        assertThat(ended.err().stream().filter(line -> line.startsWith("kcp: ")))
                .hasSize(draws ? 0 : 1);
    }

    @Test
    void outputsBelowTheTextDoNotMakeItAnotherText() throws IOException {
        Path texts = Files.createDirectory(folder.resolve("texts"));
        Files.copy(text, texts.resolve("a.txt"));
        String[] run =
                arguments(("--data T --resume --save T/run --loss-log T/log --plot T/run.svg --report T/run.html")
                        .replace("T", texts.toString())
                        .split(" "));
        for (int start = 1; start <= 2; start++) {
            assertThat(inThisProcess(Map.of(), run))
                    .satisfies(ended -> assertThat(ended.code()).as("%s", ended).isZero());
        }
    }

    private void assertRefused(int code, String named, Map<String, String> environment, String... options) {
        Ended ended = inThisProcess(environment, options);
        assertThat(ended.code()).as("%s", ended).isEqualTo(code);
        assertThat(ended.out()).isEmpty();
        assertThat(ended.err()).hasSize(1).first().asString().contains(named).doesNotContain("Exception");
    }

    private static String[] arguments(String... options) {
        List<String> all = new ArrayList<>(List.of(options));
        all.addAll(List.of(SMALL));
        return all.toArray(String[]::new);
    }

    private static Ended inThisProcess(Map<String, String> environment, String... options) {
        CommandLine kcp = Main.commandLine(environment);
        StringWriter err = new StringWriter();
        kcp.setErr(new PrintWriter(err, true));
        List<String> arguments = new ArrayList<>(List.of(options));
        arguments.addFirst("train");
        PrintStream kept = System.out;
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try {
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            int code = kcp.execute(arguments.toArray(String[]::new));
            return new Ended(
                    code,
                    out.toString(StandardCharsets.UTF_8).lines().toList(),
                    err.toString().lines().toList());
        } finally {
            System.setOut(kept);
        }
    }

    private Ended inAnotherProcess(String... options) throws Exception {
        return inAnotherProcess(Map.of(), options);
    }

    private Ended inAnotherProcess(Map<String, String> environment, String... options) throws Exception {
        List<String> command = new ArrayList<>(List.of(
                ProcessHandle.current().info().command().orElseThrow(),
                "--add-modules=jdk.incubator.vector",
                "--enable-native-access=ALL-UNNAMED",
                "-cp",
                System.getProperty("java.class.path"),
                Main.class.getName(),
                "train"));
        command.addAll(List.of(options));
        Path out = folder.resolve("out");
        Path err = folder.resolve("err");
        ProcessBuilder start =
                new ProcessBuilder(command).redirectOutput(out.toFile()).redirectError(err.toFile());
        start.environment().putAll(environment);
        Process process = start.start();
        try {
            assertThat(process.waitFor(Eventually.LIMIT))
                    .as("ended within two minutes")
                    .isTrue();
            return new Ended(process.exitValue(), Files.readAllLines(out), Files.readAllLines(err));
        } finally {
            process.destroy();
        }
    }

    private static List<Double> losses(Path log) throws IOException {
        List<Double> losses = new ArrayList<>();
        for (String line : Files.readAllLines(log)) {
            JsonNode entry = JSON.readTree(line);
            assertThat(entry.get("step").asInt()).isEqualTo(losses.size() + 1);
            losses.add(entry.get("loss").asDouble());
        }
        return losses;
    }
}
