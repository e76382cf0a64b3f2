package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.Eventually;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The {@code kcp} script in a checkout of its own, with small scripts in the place of Maven and Java. */
class KcpScriptTest {
    @TempDir
    private Path temp;

    private Path root;
    private Path jdk;
    private Path tools;

    private record Result(int exitCode, String out, String err) {
        List<String> kcpLines() {
            return err.lines().filter(line -> line.startsWith("kcp: ")).toList();
        }
    }

    @BeforeEach
    void makeCheckout() throws IOException {
        root = Files.createDirectories(temp.resolve("check out"));
        Files.copy(Path.of(System.getProperty("kcp.root"), "kcp"), root.resolve("kcp"));
        executable(root.resolve("kcp"));
        Files.writeString(root.resolve("pom.xml"), "");
        for (String module : List.of("conv-kernels", "kcp-core", "kcp-nccl", "launcher")) {
            Files.createDirectories(root.resolve(module + "/src/main/java"));
            Files.writeString(root.resolve(module + "/pom.xml"), "");
            Files.writeString(root.resolve(module + "/src/main/java/A.java"), "");
        }
        jdk = jdk("jdk", "25.0.3", "echo \"java $*\"");
        tools = Files.createDirectories(temp.resolve("tools"));
        maven("echo building >&1; mkdir -p launcher/target/lib; touch launcher/target/lib/x.jar "
                + "launcher/target/launcher-1.jar");
    }

    private Path jdk(String name, String version, String java) throws IOException {
        Path folder = temp.resolve(name);
        script(folder.resolve("bin/java"), java);
        script(folder.resolve("bin/javac"), "exit 1");
        Files.writeString(folder.resolve("release"), "IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"" + version + "\"\n");
        return folder;
    }

    private void maven(String body) throws IOException {
        script(tools.resolve("mvn"), "echo \"$JAVA_HOME $*\" >>\"" + temp + "/maven-calls\"; " + body);
    }

    private static void script(Path file, String body) throws IOException {
        Files.createDirectories(file.getParent());
        Files.writeString(file, "#!/bin/sh\n" + body + "\n");
        executable(file);
    }

    private static void executable(Path file) throws IOException {
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    private Process start(Path script, Map<String, String> environment, String... args) throws IOException {
        List<String> command = new ArrayList<>(List.of(script.toString()));
        command.addAll(List.of(args));
        ProcessBuilder builder = new ProcessBuilder(command).directory(temp.toFile());
        builder.environment().keySet().removeIf(name -> name.startsWith("KCP_") || name.equals("JAVA_HOME"));
        builder.environment().put("PATH", tools + ":/usr/bin:/bin");
        builder.environment().put("KCP_JDK", jdk.toString());
        builder.environment().putAll(environment);
        return builder.start();
    }

    private static Result await(Process process) throws IOException, InterruptedException {
        String out = new String(process.getInputStream().readAllBytes());
        String err = new String(process.getErrorStream().readAllBytes());
        assertThat(process.waitFor(Eventually.LIMIT)).isTrue();
        return new Result(process.exitValue(), out, err);
    }

    private Result kcp(Map<String, String> environment, String... args) throws IOException, InterruptedException {
        return await(start(root.resolve("kcp"), environment, args));
    }

    private List<String> mavenCalls() throws IOException {
        Path calls = temp.resolve("maven-calls");
        return Files.exists(calls) ? Files.readAllLines(calls) : List.of();
    }

    @Test
    void buildsOnceAndKeepsStdoutForTheCommand() throws Exception {
        Result first = kcp(Map.of(), "train", "a b");
        assertThat(first.exitCode()).as(first.err()).isZero();
        assertThat(first.out())
                .startsWith("java --add-modules jdk.incubator.vector --enable-native-access=ALL-UNNAMED ")
                .contains(" -cp " + root + "/launcher/target/app.")
                .endsWith("dev.kcp.launcher.Main train a b\n")
                .hasLineCount(1);
        assertThat(first.err()).contains("building");
        assertThat(mavenCalls()).hasSize(1).first().asString().startsWith(jdk + " -q ");
        Result second = kcp(Map.of(), "train", "a b");
        assertThat(second.out()).isEqualTo(first.out());
        assertThat(second.err()).isEmpty();
        assertThat(mavenCalls()).hasSize(1);
    }

    /** A release build leaves more jars, some newer than the one to run. */
    @Test
    void jarsOfSourcesAndJavadocAreNotRun() throws Exception {
        maven("mkdir -p launcher/target/lib; touch launcher/target/lib/x.jar; cd launcher/target; "
                + "touch -d '1 hour ago' launcher-1.jar; touch launcher-1-sources.jar launcher-1-javadoc.jar; "
                + "touch -d '30 minutes ago' launcher-1-sources.jar launcher-1-javadoc.jar");
        assertThat(kcp(Map.of(), "train").exitCode()).isZero();
        Path app = Path.of(
                Files.readString(root.resolve("launcher/target/kcp.stamp")).strip());
        try (Stream<Path> jars = Files.list(root.resolve("launcher/target").resolve(app))) {
            assertThat(jars.map(jar -> jar.getFileName().toString()))
                    .contains("launcher-1.jar")
                    .noneMatch(jar -> jar.endsWith("-sources.jar") || jar.endsWith("-javadoc.jar"));
        }
    }

    /** As the release's archive unpacks: jars beside the script, and no sources. */
    @Test
    void distributionRunsItsJarsAndBuildsNothing() throws Exception {
        Path unpacked = Files.createDirectories(temp.resolve("kcp 1.0"));
        Files.copy(root.resolve("kcp"), unpacked.resolve("kcp"));
        executable(unpacked.resolve("kcp"));
        Files.createDirectory(unpacked.resolve("lib"));
        Result result = await(start(unpacked.resolve("kcp"), Map.of(), "plan"));
        assertThat(result.exitCode()).as(result.err()).isZero();
        assertThat(result.out()).contains(" -cp " + unpacked + "/lib/* ").endsWith("dev.kcp.launcher.Main plan\n");
        assertThat(result.err()).isEmpty();
        assertThat(mavenCalls()).isEmpty();
    }

    @Test
    void buildsAgainWhenASourceIsNewerOrGone() throws Exception {
        kcp(Map.of());
        Files.setLastModifiedTime(
                root.resolve("kcp-core/src/main/java/A.java"),
                FileTime.from(Instant.now().plusSeconds(1)));
        kcp(Map.of());
        assertThat(mavenCalls()).hasSize(2);
        Files.setLastModifiedTime(root.resolve("kcp-core/src/main/java/A.java"), FileTime.from(Instant.EPOCH));
        kcp(Map.of());
        assertThat(mavenCalls()).hasSize(2);
        Files.delete(root.resolve("conv-kernels/src/main/java/A.java"));
        kcp(Map.of());
        assertThat(mavenCalls()).hasSize(3);
    }

    @Test
    void twoAtOnceBuildOnce() throws Exception {
        maven("sleep 1; mkdir -p launcher/target/lib; touch launcher/target/lib/x.jar launcher/target/launcher-1.jar");
        Process one = start(root.resolve("kcp"), Map.of(), "x");
        Process two = start(root.resolve("kcp"), Map.of(), "x");
        assertThat(await(one).out()).isEqualTo(await(two).out()).startsWith("java ");
        assertThat(mavenCalls()).hasSize(1);
    }

    @Test
    void failedBuildIsToldAndNotTakenForABuild() throws Exception {
        maven("echo broken; exit 3");
        for (int attempt = 1; attempt <= 2; attempt++) {
            Result result = kcp(Map.of(), "--version");
            assertThat(result.exitCode()).isEqualTo(1);
            assertThat(result.out()).isEmpty();
            assertThat(result.err()).contains("broken\n");
            assertThat(result.kcpLines().getLast()).contains("the build failed").contains("3");
            assertThat(mavenCalls()).hasSize(attempt);
        }
    }

    @Test
    void worksThroughLinksFromAnyFolder() throws Exception {
        Path link = temp.resolve("link");
        Files.createSymbolicLink(link, Path.of("check out/kcp"));
        Path second = Files.createDirectory(temp.resolve("bin")).resolve("kcp");
        Files.createSymbolicLink(second, link);
        assertThat(await(start(second, Map.of(), "x")).out()).contains(root + "/launcher/target/app.");
    }

    @Test
    void readyClassPathBuildsNothing() throws Exception {
        Result result = kcp(
                Map.of("KCP_CLASSPATH", "/x/*:/y.jar", "JAVA_HOME", jdk.toString(), "KCP_JDK", "", "PATH", "/bin"),
                "x");
        assertThat(result.out()).contains(" -cp /x/*:/y.jar dev.kcp.launcher.Main x");
        assertThat(result.err()).isEmpty();
        assertThat(mavenCalls()).isEmpty();
    }

    @Test
    void olderJavaIsPassedOver() throws Exception {
        Path old = jdk("old", "17.0.9", "echo old");
        Result result = kcp(Map.of("KCP_JDK", old.toString()), "x");
        assertThat(result.exitCode()).isEqualTo(8);
        assertThat(result.err()).hasLineCount(1).contains("KCP_JDK=" + old);
        // JAVA_HOME is only a proposal: the machine's own JDK 25 is found instead, or its lack is told.
        Result proposed = kcp(Map.of("KCP_JDK", "", "JAVA_HOME", old.toString(), "KCP_CLASSPATH", "/none"), "x");
        assertThat(proposed.out()).doesNotContain("old");
        assertThat(proposed.exitCode()).isNotZero();
    }

    @Test
    void withoutMavenOneLineSaysSo() throws Exception {
        Files.delete(tools.resolve("mvn"));
        Path bare = Files.createDirectories(temp.resolve("bare"));
        for (String tool : List.of("dirname", "readlink", "mkdir", "find", "head", "flock")) {
            script(bare.resolve(tool), "PATH=/usr/bin:/bin; exec " + tool + " \"$@\"");
        }
        Result result = kcp(Map.of("PATH", bare.toString()), "x");
        assertThat(result.exitCode()).isEqualTo(8);
        assertThat(result.err()).hasLineCount(1).contains("Maven");
    }

    /** Writes what a JVM that records its start would write. */
    private static final String RECORDING = "for word; do case $word in -XX:AOTCacheOutput=*) "
            + "echo record >\"${word#*=}\"; exit 0 ;; esac; done; echo \"java $*\"";

    @Test
    void laterStartsReadTheRecordOfTheBuild() throws Exception {
        jdk = jdk("recording", "25.0.3", RECORDING);
        Result first = kcp(Map.of(), "train");
        assertThat(first.out()).containsPattern("-XX:AOTCache=" + root + "/launcher/target/app\\.\\d+/all\\.aot ");
        // A JVM without the vector module needs a record of its own.
        assertThat(kcp(Map.of(), "run").out()).contains("/light.aot ");
        assertThat(kcp(Map.of(), "train").out()).isEqualTo(first.out());
        assertThat(mavenCalls()).hasSize(1);
    }

    @Test
    void recordOfAnotherJdkIsLeftAlone() throws Exception {
        jdk = jdk("recording", "25.0.3", RECORDING);
        kcp(Map.of(), "train");
        jdk = jdk("other", "26", "echo \"java $*\"");
        assertThat(kcp(Map.of(), "train").out()).startsWith("java ").doesNotContain("AOTCache");
    }

    @Test
    void buildWithoutARecordStartsAllTheSame() throws Exception {
        jdk = jdk("crashing", "25.0.3", "case $* in *AOTCacheOutput*) exit 134 ;; esac; echo \"java $*\"");
        Result result = kcp(Map.of(), "train");
        assertThat(result.exitCode()).isZero();
        assertThat(result.out()).startsWith("java ").doesNotContain("AOTCache");
    }

    @Test
    void commandsThatDoNotComputeStartWithTheSmallCompiler() throws Exception {
        assertThat(kcp(Map.of(), "run", "-n", "2", "--", "true").out()).contains(" -XX:TieredStopAtLevel=1 ");
        assertThat(kcp(Map.of(), "doctor").out()).contains(" -XX:+UseSerialGC ", "jdk.incubator.vector");
        assertThat(kcp(Map.of(), "--help").out()).contains(" -XX:+UseSerialGC ").doesNotContain("jdk.incubator.vector");
        assertThat(kcp(Map.of(), "train").out()).doesNotContain("TieredStopAtLevel");
        // The user's own choice of a collector must not meet another one.
        assertThat(kcp(Map.of("KCP_JAVA_OPTS", "-XX:+UseZGC"), "run").out())
                .contains(" -XX:+UseZGC ")
                .doesNotContain("UseSerialGC");
    }
}
