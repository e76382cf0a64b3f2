package dev.kcp.multirank;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * A page of the documentation with its blocks of code.
 *
 * @param name from the checkout's root
 * @param blocks in their order
 */
record DocPage(String name, String text, List<Block> blocks) {
    private static final Pattern FENCE =
            Pattern.compile("^```([^\n]*)\n(.*?)^```$", Pattern.DOTALL | Pattern.MULTILINE);

    /**
     * One fenced block.
     *
     * @param info what stands behind the fence: {@code java}, {@code java no-run} for what needs a GPU or other processes,
     *     {@code sh run} for commands that are run, {@code text output} for what the commands before print
     */
    record Block(String info, String code, int line) {}

    static DocPage read(Path root, String name) {
        try {
            String text = Files.readString(root.resolve(name));
            List<Block> blocks = new ArrayList<>();
            Matcher fence = FENCE.matcher(text);
            while (fence.find()) {
                int line = (int) text.substring(0, fence.start()).lines().count() + 1;
                blocks.add(new Block(fence.group(1).strip(), fence.group(2), line));
            }
            return new DocPage(name, text, blocks);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The README, CONTRIBUTING and every page in docs. */
    static List<DocPage> all(Path root) {
        try (Stream<Path> docs = Files.list(root.resolve("docs"))) {
            return Stream.concat(
                            Stream.of("README.md", "CONTRIBUTING.md"),
                            docs.map(file -> "docs/" + file.getFileName())
                                    .filter(file -> file.endsWith(".md"))
                                    .sorted())
                    .map(name -> read(root, name))
                    .toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The text without its blocks of code. */
    String prose() {
        return FENCE.matcher(text).replaceAll("");
    }

    /** What links call the headings: lower case, hyphens for spaces, without marks. */
    List<String> headingNames() {
        return Pattern.compile("^#+ (.*)$", Pattern.MULTILINE)
                .matcher(prose())
                .results()
                .map(heading -> heading.group(1)
                        .toLowerCase(Locale.ROOT)
                        .replaceAll("[^\\w -]", "")
                        .replace(' ', '-'))
                .toList();
    }

    @Override
    public String toString() {
        return name;
    }
}
