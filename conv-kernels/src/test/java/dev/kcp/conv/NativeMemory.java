package dev.kcp.conv;

import java.lang.management.ManagementFactory;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.management.JMException;
import javax.management.ObjectName;

/**
 * Bytes that Java code of this process has allocated outside the heap and not freed, as the JVM counts them. Unlike resident
 * bytes they have nothing of the heap, the compilers and what the allocator keeps.
 */
public final class NativeMemory {
    private static final Pattern OTHER = Pattern.compile("\\bOther \\(reserved=\\d+, committed=(\\d+)");

    private NativeMemory() {}

    /** Bytes allocated now. */
    public static long bytes() {
        String summary;
        try {
            summary = (String) ManagementFactory.getPlatformMBeanServer()
                    .invoke(
                            new ObjectName("com.sun.management:type=DiagnosticCommand"),
                            "vmNativeMemory",
                            new Object[] {new String[] {"summary", "scale=1"}},
                            new String[] {String[].class.getName()});
        } catch (JMException e) {
            throw new AssertionError(e);
        }
        if (!summary.contains("Total: reserved=")) {
            throw new AssertionError("start the JVM with -XX:NativeMemoryTracking=summary: " + summary);
        }
        Matcher other = OTHER.matcher(summary);
        return other.find() ? Long.parseLong(other.group(1)) : 0;
    }
}
