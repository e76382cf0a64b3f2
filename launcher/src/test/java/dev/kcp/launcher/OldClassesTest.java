package dev.kcp.launcher;

import static java.lang.constant.ConstantDescs.CD_String;
import static java.lang.constant.ConstantDescs.CD_int;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.lang.classfile.ClassFile;
import java.lang.constant.ClassDesc;
import java.lang.constant.MethodTypeDesc;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class OldClassesTest {
    @TempDir
    private Path folder;

    /** {@code static String sign(int n) { return n < 0 ? "negative" : "other"; }}, without stack maps where that is old. */
    private static byte[] classFile(String name, int version) {
        return ClassFile.of(ClassFile.StackMapsOption.STACK_MAPS_WHEN_REQUIRED)
                .build(ClassDesc.of(name), builder -> builder.withVersion(version, 0)
                        .withFlags(ClassFile.ACC_PUBLIC)
                        .withMethodBody(
                                "sign",
                                MethodTypeDesc.of(CD_String, CD_int),
                                ClassFile.ACC_PUBLIC | ClassFile.ACC_STATIC,
                                code -> code.iload(0)
                                        .ifThenElse(
                                                java.lang.classfile.Opcode.IFLT,
                                                then -> then.loadConstant("negative"),
                                                otherwise -> otherwise.loadConstant("other"))
                                        .areturn()));
    }

    private Path jar(Map<String, byte[]> entries) throws IOException {
        Path jar = folder.resolve("some.jar");
        try (ZipOutputStream out = new ZipOutputStream(Files.newOutputStream(jar))) {
            for (Map.Entry<String, byte[]> entry : entries.entrySet()) {
                out.putNextEntry(new ZipEntry(entry.getKey()));
                out.write(entry.getValue());
                out.closeEntry();
            }
        }
        return jar;
    }

    private static Map<String, byte[]> entries(Path jar) throws IOException {
        Map<String, byte[]> entries = new LinkedHashMap<>();
        try (ZipFile file = new ZipFile(jar.toFile())) {
            for (ZipEntry entry : java.util.Collections.list(file.entries())) {
                entries.put(entry.getName(), file.getInputStream(entry).readAllBytes());
            }
        }
        return entries;
    }

    @Test
    void oldClassesAreRewrittenAndDoTheSame() throws Exception {
        byte[] notes = "notes".getBytes(StandardCharsets.UTF_8);
        byte[] recent = classFile("b.Recent", ClassFile.JAVA_17_VERSION);
        Path jar = jar(Map.of(
                "a/Old.class",
                classFile("a.Old", ClassFile.JAVA_5_VERSION),
                "b/Recent.class",
                recent,
                "META-INF/notes.txt",
                notes));
        OldClasses.main(new String[] {folder.toString()});
        assertThat(entries(jar))
                .hasSize(3)
                .containsEntry("b/Recent.class", recent)
                .containsEntry("META-INF/notes.txt", notes);
        assertThat(ClassFile.of().parse(entries(jar).get("a/Old.class")).majorVersion())
                .isEqualTo(ClassFile.JAVA_8_VERSION);
        try (URLClassLoader loader = new URLClassLoader(new URL[] {jar.toUri().toURL()}, null)) {
            assertThat(loader.loadClass("a.Old").getMethod("sign", int.class).invoke(null, -3))
                    .isEqualTo("negative");
            assertThat(loader.loadClass("a.Old").getMethod("sign", int.class).invoke(null, 3))
                    .isEqualTo("other");
        }
        assertThat(OldClasses.renew(jar)).isZero();
        assertThat(folder).isDirectoryNotContaining(file -> file.toString().endsWith(".part"));
    }

    @Test
    void signedJarsStayAsTheyAre() throws Exception {
        Path jar = jar(
                Map.of("a/Old.class", classFile("a.Old", ClassFile.JAVA_5_VERSION), "META-INF/KEY.SF", new byte[] {1}));
        byte[] before = Files.readAllBytes(jar);
        assertThat(OldClasses.renew(jar)).isZero();
        assertThat(jar).hasBinaryContent(before);
    }
}
