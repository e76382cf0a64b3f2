package dev.kcp.launcher;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassFileVersion;
import java.lang.classfile.ClassHierarchyResolver;
import java.lang.classfile.ClassTransform;
import java.lang.classfile.CodeTransform;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Collections;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;

/**
 * Rewrites classes of jars in the form of Java 8 where they are in that of Java 5 or older, which a JVM does not keep in its
 * record of a start. Their code stays as it is. The {@code kcp} script runs it on its own copies of the jars.
 */
final class OldClasses {
    private static final int OLDEST_RECORDED = ClassFile.JAVA_6_VERSION;
    private static final int VERSION_OFFSET = 6;

    private OldClasses() {}

    /** @param args folders of jars */
    public static void main(String[] args) throws IOException {
        for (String folder : args) {
            try (DirectoryStream<Path> jars = Files.newDirectoryStream(Path.of(folder), "*.jar")) {
                for (Path jar : jars) {
                    renew(jar);
                }
            }
        }
    }

    /** Rewrites a jar in place if it holds such classes and no signature, which they would break; returns how many. */
    static int renew(Path jar) throws IOException {
        Path draft = jar.resolveSibling(jar.getFileName() + ".part");
        try (ZipFile from = new ZipFile(jar.toFile())) {
            boolean isSigned = from.stream().anyMatch(entry -> entry.getName().matches("META-INF/[^/]+\\.SF"));
            if (isSigned || !hasOld(from)) {
                return 0;
            }
            int renewed = copy(jar, from, draft);
            Files.move(draft, jar, StandardCopyOption.REPLACE_EXISTING);
            return renewed;
        } finally {
            Files.deleteIfExists(draft);
        }
    }

    private static boolean hasOld(ZipFile jar) throws IOException {
        for (ZipEntry entry : Collections.list(jar.entries())) {
            if (isClass(entry)) {
                try (InputStream in = jar.getInputStream(entry)) {
                    if (isOld(in.readNBytes(VERSION_OFFSET + Short.BYTES))) {
                        return true;
                    }
                }
            }
        }
        return false;
    }

    private static int copy(Path jar, ZipFile from, Path to) throws IOException {
        int renewed = 0;
        // Types of the stack are told by the classes' ancestors, which may lie in the same jar.
        try (URLClassLoader own = new URLClassLoader(new URL[] {jar.toUri().toURL()});
                OutputStream file = Files.newOutputStream(to);
                ZipOutputStream out = new ZipOutputStream(file)) {
            ClassFile classes = ClassFile.of(
                    ClassFile.StackMapsOption.GENERATE_STACK_MAPS,
                    ClassFile.ClassHierarchyResolverOption.of(ClassHierarchyResolver.ofResourceParsing(own)
                            .orElse(ClassHierarchyResolver.defaultResolver())));
            for (ZipEntry entry : Collections.list(from.entries())) {
                byte[] bytes;
                try (InputStream in = from.getInputStream(entry)) {
                    bytes = in.readAllBytes();
                }
                if (isClass(entry) && isOld(bytes)) {
                    bytes = renew(classes, bytes);
                    renewed++;
                }
                ZipEntry copied = new ZipEntry(entry.getName());
                copied.setTime(entry.getTime());
                out.putNextEntry(copied);
                out.write(bytes);
                out.closeEntry();
            }
        }
        return renewed;
    }

    private static boolean isClass(ZipEntry entry) {
        return entry.getName().endsWith(".class");
    }

    private static boolean isOld(byte[] classFile) {
        return classFile.length >= VERSION_OFFSET + Short.BYTES
                && ByteBuffer.wrap(classFile).getShort(VERSION_OFFSET) < OLDEST_RECORDED;
    }

    private static byte[] renew(ClassFile classes, byte[] old) {
        ClassTransform withStackMaps = ClassTransform.transformingMethodBodies(CodeTransform.ACCEPT_ALL);
        return classes.transformClass(
                classes.parse(old),
                withStackMaps
                        .andThen((builder, element) -> {
                            if (!(element instanceof ClassFileVersion)) {
                                builder.with(element);
                            }
                        })
                        .andThen(ClassTransform.endHandler(
                                builder -> builder.withVersion(ClassFile.JAVA_8_VERSION, 0))));
    }
}
