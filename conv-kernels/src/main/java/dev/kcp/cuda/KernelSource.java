package dev.kcp.cuda;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A file of kernels as text, with every file that it includes, as packed into the jar.
 *
 * @param name without folder and ending
 * @param text the file itself
 * @param headers texts of the files it includes, directly or not, by their names
 */
record KernelSource(String name, String text, SortedMap<String, String> headers) {
    private static final Pattern INCLUDE = Pattern.compile("^#include \"([^\"]+)\"", Pattern.MULTILINE);

    /**
     * Reads a file and what it includes.
     *
     * @param owner class whose package holds it, in the folder {@code source}
     * @throws KcpException with code MISSING_DEVICE if the jar was packed without it
     */
    static KernelSource of(Class<?> owner, String name) {
        String text = read(owner, name + ".cu");
        SortedMap<String, String> headers = new TreeMap<>();
        addHeaders(owner, text, headers);
        return new KernelSource(name, text, headers);
    }

    private static void addHeaders(Class<?> owner, String text, SortedMap<String, String> headers) {
        for (Matcher include = INCLUDE.matcher(text); include.find(); ) {
            String header = include.group(1);
            if (!headers.containsKey(header)) {
                headers.put(header, read(owner, header));
                addHeaders(owner, headers.get(header), headers);
            }
        }
    }

    private static String read(Class<?> owner, String file) {
        try (InputStream in = owner.getResourceAsStream("source/" + file)) {
            if (in == null) {
                throw new KcpException(Code.MISSING_DEVICE, "this build of kcp lacks a kernel's source: file=" + file);
            }
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new KcpException(Code.MISSING_DEVICE, "a kernel's source cannot be read: file=" + file, e);
        }
    }
}
