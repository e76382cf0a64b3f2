package dev.kcp.multirank;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.StringWriter;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What the README shows compiles, runs, and names files that exist. */
class ReadmeTest {
    private static final String IMPORTS = """
            import dev.kcp.comm.*;
            import dev.kcp.conv.*;
            import dev.kcp.conv.cpu.*;
            import dev.kcp.core.*;
            import dev.kcp.tensor.*;
            import java.time.Duration;
            import java.util.List;
            """;

    private static String readme() throws IOException {
        return Files.readString(Path.of(System.getProperty("kcp.root"), "README.md"));
    }

    @Test
    void libraryExampleCompilesAndRuns(@TempDir Path classes) throws Exception {
        Matcher block = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL).matcher(readme());
        assertThat(block.find()).as("a java block in the README").isTrue();
        String source = IMPORTS + "public class Example { public static void run() {\n" + block.group(1) + "}}";
        StringWriter messages = new StringWriter();
        boolean compiled = ToolProvider.getSystemJavaCompiler()
                .getTask(
                        messages,
                        null,
                        null,
                        List.of("-d", classes.toString(), "-cp", System.getProperty("java.class.path")),
                        null,
                        List.of(
                                new SimpleJavaFileObject(
                                        URI.create("string:///Example.java"), JavaFileObject.Kind.SOURCE) {
                                    @Override
                                    public CharSequence getCharContent(boolean ignoreEncodingErrors) {
                                        return source;
                                    }
                                }))
                .call();
        assertThat(compiled).as(messages.toString()).isTrue();
        try (URLClassLoader loader =
                new URLClassLoader(new URL[] {classes.toUri().toURL()})) {
            loader.loadClass("Example").getMethod("run").invoke(null);
        }
    }

    @Test
    void linkedFilesExist() throws IOException {
        Path root = Path.of(System.getProperty("kcp.root"));
        Matcher link = Pattern.compile("\\]\\(([^)#:]+)\\)").matcher(readme());
        int links = 0;
        for (; link.find(); links++) {
            assertThat(root.resolve(link.group(1))).exists();
        }
        assertThat(links).isPositive();
    }
}
