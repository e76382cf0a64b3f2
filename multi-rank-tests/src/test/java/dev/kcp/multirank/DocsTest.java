package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.conv.Eventually;
import java.io.File;
import java.io.IOException;
import java.io.StringWriter;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What the README and the pages in docs show compiles, runs, prints what they say, and names files that exist. */
class DocsTest {
    private static final Path ROOT = Path.of(System.getProperty("kcp.root"));

    /** What every block of Java may use without saying so. */
    private static final String IMPORTS = """
            import dev.kcp.comm.*;
            import dev.kcp.conv.*;
            import dev.kcp.conv.cpu.*;
            import dev.kcp.conv.cuda.*;
            import dev.kcp.conv.tree.*;
            import dev.kcp.cuda.*;
            import dev.kcp.core.*;
            import dev.kcp.nccl.*;
            import dev.kcp.tensor.*;
            import java.lang.foreign.*;
            import java.nio.*;
            import java.nio.file.*;
            import java.time.Duration;
            import java.util.*;
            """;

    /** Options in the text that are not kcp's: of the JVM, Slurm and torchrun. */
    private static final Set<String> OF_OTHER_PROGRAMS =
            Set.of("add-modules", "enable-native-access", "kill-on-bad-exit", "requeue", "nnodes");

    static Stream<DocPage> pages() {
        return DocPage.all(ROOT).stream();
    }

    /** A mistyped mark would silently leave a block out. */
    @Test
    void everyMarkIsKnown() {
        List<String> marks = List.of("java", "java no-run", "sh", "sh run", "text output");
        List<String> seen = new ArrayList<>();
        pages().forEach(page -> page.blocks().forEach(block -> {
            if (block.info().matches("(java|sh|text)\\b.*")) {
                assertThat(marks).as("%s line %d", page, block.line()).contains(block.info());
                seen.add(block.info());
            }
        }));
        assertThat(seen).contains(marks.toArray(String[]::new));
    }

    /** Commands that cannot be run here, for they need a GPU, a cluster or a text to train on, have options that exist. */
    @Test
    void optionsOfAllCommandsShownExist() {
        Pattern command =
                Pattern.compile("^.*?(?:\\./)?\\bkcp (train|conv|run|plan|bench|doctor)\\b(.*)$", Pattern.MULTILINE);
        Pattern option = Pattern.compile("(?<=\\s)--[a-z][a-z-]*");
        Map<String, String> help = new HashMap<>();
        int options = 0;
        for (DocPage page : pages().toList()) {
            for (DocPage.Block block : page.blocks()) {
                Matcher line =
                        command.matcher(block.info().equals("sh") ? block.code().replace("\\\n", " ") : "");
                while (line.find()) {
                    String usage = help.computeIfAbsent(line.group(1), name -> KcpProcess.run(name, "--help")
                            .out());
                    String own = line.group(2).replaceAll("( -- | #|[|;&]).*", "");
                    for (Matcher one = option.matcher(own); one.find(); options++) {
                        assertThat(usage).as(page + ": " + line.group()).contains(one.group());
                    }
                }
            }
        }
        assertThat(options).isPositive();
    }

    /** Both ways: no page names an option that no command has, and no command has one that no page names. */
    @Test
    void pagesAndHelpNameTheSameOptions() {
        Pattern option = Pattern.compile("(?<![\\w-])--(?:\\[no-])?([a-z][a-z-]*)");
        Set<String> offered = new TreeSet<>();
        for (String command : List.of("train", "conv", "run", "plan", "bench", "doctor")) {
            String usage = KcpProcess.run(command, "--help").out();
            // The examples may show options of the programs that are started.
            String own = usage.substring(0, usage.indexOf("\nExamples:"));
            option.matcher(own)
                    .results()
                    .forEach(one -> offered.add(one.group(1).replaceFirst("^no-", "")));
        }
        assertThat(offered).contains("world", "lengths", "hang-timeout");
        Set<String> written = new TreeSet<>();
        for (DocPage page : pages().toList()) {
            option.matcher(page.text())
                    .results()
                    .forEach(one -> written.add(one.group(1).replaceFirst("^no-", "")));
            Pattern span = Pattern.compile("`([^`\n]+)`");
            span.matcher(page.prose())
                    .results()
                    .flatMap(code -> option.matcher(code.group(1)).results())
                    .map(one -> one.group(1).replaceFirst("^no-", ""))
                    .filter(name -> !OF_OTHER_PROGRAMS.contains(name))
                    .forEach(name -> assertThat(offered).as(page.name()).contains(name));
        }
        offered.removeAll(Set.of("version", "stack-traces", "help"));
        assertThat(written).containsAll(offered);
    }

    @ParameterizedTest
    @MethodSource("pages")
    void javaCompilesAndRuns(DocPage page, @TempDir Path classes) throws Exception {
        List<DocPage.Block> blocks = page.blocks().stream()
                .filter(block -> block.info().startsWith("java"))
                .toList();
        List<JavaFileObject> sources = new ArrayList<>();
        for (DocPage.Block block : blocks) {
            sources.add(source("Example" + block.line(), block.code()));
        }
        if (sources.isEmpty()) {
            return;
        }
        StringWriter messages = new StringWriter();
        boolean compiled = ToolProvider.getSystemJavaCompiler()
                .getTask(
                        messages,
                        null,
                        null,
                        List.of("-d", classes.toString(), "-cp", System.getProperty("java.class.path")),
                        null,
                        sources)
                .call();
        assertThat(compiled).as(page + ": " + messages).isTrue();
        try (URLClassLoader loader =
                new URLClassLoader(new URL[] {classes.toUri().toURL()})) {
            for (DocPage.Block block : blocks) {
                if (block.info().equals("java")) {
                    loader.loadClass("Example" + block.line()).getMethod("run").invoke(null);
                }
            }
        }
    }

    /** A block is the body of a method. */
    private static JavaFileObject source(String name, String body) {
        String text =
                IMPORTS + "public class " + name + " { public static void run() throws Exception {\n" + body + "}}";
        return new SimpleJavaFileObject(URI.create("string:///" + name + ".java"), JavaFileObject.Kind.SOURCE) {
            @Override
            public CharSequence getCharContent(boolean ignoreEncodingErrors) {
                return text;
            }
        };
    }

    /** The commands of a page in their order, in one folder that has the checkout's docs. */
    @ParameterizedTest
    @MethodSource("pages")
    void commandsRunAndPrintWhatIsShown(DocPage page, @TempDir Path folder) throws Exception {
        copyDocs(folder);
        String printed = null;
        for (DocPage.Block block : page.blocks()) {
            String where = page + " line " + block.line();
            if (block.info().equals("sh run")) {
                printed = run(where, folder, block.code());
            } else if (block.info().equals("text output")) {
                assertThat(printed).as(where + " has commands before it").isNotNull();
                assertThat(printed).as(where).matches(pattern(block.code()));
            }
        }
        assertPicturesAreThoseOfDocs(folder);
    }

    private static void assertPicturesAreThoseOfDocs(Path folder) throws IOException {
        try (DirectoryStream<Path> drawn = Files.newDirectoryStream(folder, "*.svg")) {
            for (Path picture : drawn) {
                assertThat(picture).hasSameTextualContentAs(ROOT.resolve("docs").resolve(picture.getFileName()));
            }
        }
    }

    private static void copyDocs(Path folder) throws IOException {
        Path docs = Files.createDirectories(folder.resolve("docs"));
        try (Stream<Path> files = Files.list(ROOT.resolve("docs"))) {
            for (Path file : files.toList()) {
                Files.copy(file, docs.resolve(file.getFileName()));
            }
        }
        Path kcp = Files.writeString(
                folder.resolve("kcp"),
                "#!/bin/sh\nexec '" + ProcessHandle.current().info().command().orElseThrow()
                        + "' --add-modules jdk.incubator.vector --enable-native-access=ALL-UNNAMED"
                        + " -XX:TieredStopAtLevel=1 -cp '" + absolute(System.getProperty("java.class.path"))
                        + "' dev.kcp.launcher.Main \"$@\"\n");
        Files.setPosixFilePermissions(kcp, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    private static String absolute(String classPath) {
        return String.join(
                File.pathSeparator,
                Stream.of(classPath.split(File.pathSeparator))
                        .map(entry -> Path.of(entry).toAbsolutePath().toString())
                        .toList());
    }

    private static String run(String where, Path folder, String commands) throws Exception {
        Path err = folder.resolve(".stderr");
        ProcessBuilder shell = new ProcessBuilder("sh", "-e", "-c", commands)
                .directory(folder.toFile())
                .redirectError(err.toFile());
        shell.environment().merge("PATH", folder.toString(), (path, here) -> here + File.pathSeparator + path);
        Process process = shell.start();
        try {
            String out = new String(process.getInputStream().readAllBytes());
            assertThat(process.waitFor(Eventually.LIMIT)).as(where).isTrue();
            assertThat(process.exitValue())
                    .as(where + ": " + Files.readString(err))
                    .isZero();
            return out;
        } finally {
            process.destroyForcibly();
        }
    }

    /** The text as a pattern: {@code ...} within a line stands for a few characters, alone on a line for any lines. */
    private static Pattern pattern(String text) {
        StringBuilder pattern = new StringBuilder();
        for (String line : text.split("\n", -1)) {
            if (line.strip().equals("...")) {
                pattern.append("(.*\n)*?");
            } else {
                String quoted = Stream.of(line.split("\\.\\.\\.", -1))
                        .map(Pattern::quote)
                        .reduce((a, b) -> a + ".*?" + b)
                        .orElseThrow();
                pattern.append(quoted).append(" *\n");
            }
        }
        // The last line of a block has its end already.
        String all = pattern.toString();
        return Pattern.compile(all.substring(0, all.length() - (Pattern.quote("") + " *\n").length()));
    }

    @ParameterizedTest
    @MethodSource("pages")
    void linkedFilesExist(DocPage page) {
        Path folder = ROOT.resolve(page.name()).getParent();
        Matcher link = Pattern.compile("\\]\\(([^)#:]+)(#[^)]*)?\\)").matcher(page.text());
        while (link.find()) {
            assertThat(folder.resolve(link.group(1))).as(page.name()).exists();
        }
    }

    /** A link into a page names a heading of it; headings become names as GitHub makes them. */
    @ParameterizedTest
    @MethodSource("pages")
    void linkedHeadingsExist(DocPage page) {
        Path folder = ROOT.resolve(page.name()).getParent();
        Matcher link = Pattern.compile("\\]\\(([^)#:]*)#([^)]*)\\)").matcher(page.text());
        while (link.find()) {
            Path file = link.group(1).isEmpty()
                    ? ROOT.resolve(page.name())
                    : folder.resolve(link.group(1)).normalize();
            DocPage target = DocPage.read(ROOT, ROOT.relativize(file).toString());
            assertThat(target.headingNames()).as(page.name()).contains(link.group(2));
        }
    }

    /** Files that the text names without a link. */
    @ParameterizedTest
    @MethodSource("pages")
    void namedFilesExist(DocPage page) {
        Matcher name =
                Pattern.compile("`((?:docs|benchmarks)/[\\w./-]+\\.\\w+)`").matcher(page.prose());
        while (name.find()) {
            assertThat(ROOT.resolve(name.group(1))).as(page.name()).exists();
        }
    }

    /** Every picture is drawn by a command that is run, and compared to it there. */
    @Test
    void everyPictureHasItsCommand() throws IOException {
        String commands = pages().flatMap(page -> page.blocks().stream())
                .filter(block -> block.info().equals("sh run"))
                .map(DocPage.Block::code)
                .collect(Collectors.joining());
        try (Stream<Path> files = Files.list(ROOT.resolve("docs"))) {
            for (Path file : files.toList()) {
                String name = file.getFileName().toString();
                if (name.endsWith(".svg")) {
                    assertThat(commands).contains("--svg " + name + "\n");
                }
            }
        }
    }
}
