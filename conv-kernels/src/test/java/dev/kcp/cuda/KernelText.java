package dev.kcp.cuda;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A file of kernels with its headers, read as text: the constants, structs and kernels that a Java class has a twin of. It
 * knows just the forms that the sources use, and fails at any other.
 */
public final class KernelText {
    /**
     * A member of a struct.
     *
     * @param count of an array's elements; 1 of anything else
     */
    public record Member(String name, String type, long count) {}

    /**
     * A kernel.
     *
     * @param threads of a block, 0 where the source does not say
     * @param argument its only one's type
     */
    public record Entry(String name, long threads, String argument) {}

    private static final Map<String, Long> BYTES = Map.of(
            "int64_t",
            8L,
            "uint64_t",
            8L,
            "double",
            8L,
            "int",
            4L,
            "uint32_t",
            4L,
            "float",
            4L,
            "int4",
            16L,
            "uint4",
            16L);
    private static final Pattern MEMBER = Pattern.compile("(?:const )?(\\w+)(\\*?) (\\w+)((?:\\[[^]]+])*)");
    private static final Pattern EXTENT = Pattern.compile("\\[([^]]+)]");
    private static final Pattern MACRO = Pattern.compile("(?m)^#define (\\w+)\\(([^)]*)\\) (.*)$");
    private static final Pattern ENTRY =
            Pattern.compile("extern \"C\" __global__ void (?:__launch_bounds__\\(([^),]+)[^)]*\\) )?"
                    + "(\\w+)\\(const __grid_constant__ (\\w+) \\w+\\)");

    private final String text;

    private KernelText(String text) {
        this.text = text;
    }

    /** A file as the jar has it, with what it includes. */
    public static KernelText of(Class<?> owner, String name) {
        KernelSource source = KernelSource.of(owner, name);
        StringBuilder all = new StringBuilder();
        source.headers().values().forEach(all::append);
        all.append(source.text());
        return new KernelText(all.toString().replaceAll("//[^\n]*", "").replaceAll(" *\\\\\n *", " "));
    }

    /** The value of an integer constant. */
    public long constant(String name) {
        Matcher found =
                Pattern.compile("constexpr \\w+ " + name + " = ([^;]+);").matcher(text);
        if (!found.find()) {
            throw new NoSuchElementException("no such constant: name=" + name);
        }
        return value(found.group(1));
    }

    /** Of sums of products of numbers, constants and quotients of two. */
    private long value(String expression) {
        long sum = 0;
        for (String term : expression.split("\\+")) {
            long product = 1;
            for (String factor : term.split("\\*")) {
                String[] words = factor.strip().split(" */ *");
                product *= words.length == 1 ? word(words[0]) : word(words[0]) / word(words[1]);
            }
            sum += product;
        }
        return sum;
    }

    private long word(String word) {
        return Character.isDigit(word.charAt(0)) ? Long.decode(word) : constant(word);
    }

    /** Members of a struct in their order. */
    public List<Member> struct(String name) {
        Matcher found = Pattern.compile("struct " + name + " \\{(.*?)\n};", Pattern.DOTALL)
                .matcher(text);
        if (!found.find()) {
            throw new NoSuchElementException("no such struct: name=" + name);
        }
        List<Member> members = new ArrayList<>();
        for (String line : found.group(1).strip().split(";\\s*")) {
            Matcher member = MEMBER.matcher(line.strip());
            if (!member.matches()) {
                throw new IllegalStateException("member of another form: struct=" + name + " member=" + line);
            }
            long count = 1;
            for (Matcher extent = EXTENT.matcher(member.group(4)); extent.find(); ) {
                count *= value(extent.group(1));
            }
            members.add(new Member(member.group(3), member.group(1) + member.group(2), count));
        }
        return members;
    }

    /** Size of a type; its members lie without gaps between them, or this fails. */
    public long bytes(String type) {
        if (type.endsWith("*")) {
            return Long.BYTES;
        }
        if (BYTES.containsKey(type)) {
            return BYTES.get(type);
        }
        return offset(type, null);
    }

    /** Where a member begins; null is the struct's end. */
    public long offset(String struct, String member) {
        long at = 0;
        for (Member each : struct(struct)) {
            long bytes = bytes(each.type());
            if (at % BYTES.getOrDefault(each.type(), (long) Long.BYTES) != 0) {
                throw new IllegalStateException("gap in a struct: struct=" + struct + " before=" + each.name());
            }
            if (each.name().equals(member)) {
                return at;
            }
            at += bytes * each.count();
        }
        if (member != null) {
            throw new NoSuchElementException("no such member: struct=" + struct + " member=" + member);
        }
        return at;
    }

    /** Kernels by their names, those that macros make among them. */
    public Map<String, Entry> entries() {
        String expanded = text;
        List<MatchResult> macros = MACRO.matcher(text).results().toList();
        expanded = expanded.replaceAll("(?m)^#.*$", "");
        // A macro may use those before it.
        for (MatchResult macro : macros.reversed()) {
            String[] names = macro.group(2).split(", *");
            expanded = Pattern.compile("\\b" + macro.group(1) + "\\(([^()]*)\\)")
                    .matcher(expanded)
                    .replaceAll(use -> {
                        String body = macro.group(3);
                        String[] values = use.group(1).split(", *");
                        for (int i = 0; i < names.length; i++) {
                            body = body.replaceAll("\\b" + names[i] + "\\b", Matcher.quoteReplacement(values[i]));
                        }
                        return Matcher.quoteReplacement(body.replaceAll(" *## *", ""));
                    });
        }
        Map<String, Entry> entries = new LinkedHashMap<>();
        for (Matcher found = ENTRY.matcher(expanded); found.find(); ) {
            long threads = found.group(1) == null ? 0 : value(found.group(1));
            entries.put(found.group(2), new Entry(found.group(2), threads, found.group(3)));
        }
        return entries;
    }
}
