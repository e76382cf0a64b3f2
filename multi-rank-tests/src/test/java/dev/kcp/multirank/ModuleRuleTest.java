package dev.kcp.multirank;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.Architectures.layeredArchitecture;
import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.core.domain.Dependency;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import java.io.IOException;
import java.lang.foreign.Linker;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Modules depend one way: conv-kernels, kcp-core, kcp-nccl, launcher; so do packages; the outside is read in few places. */
class ModuleRuleTest {
    private static final JavaClasses KCP = new ClassFileImporter()
            .withImportOption(new ImportOption.DoNotIncludeTests())
            // Once they are packaged, the other modules' tests come as jars, which that option takes for main classes.
            .withImportOption(location -> !location.contains("-tests.jar"))
            .importPackages("dev.kcp");

    @Test
    void everyModuleWasRead() {
        for (String package_ :
                new String[] {"dev.kcp.tensor", "dev.kcp.conv", "dev.kcp.comm", "dev.kcp.nccl", "dev.kcp.launcher"}) {
            assertThat(KCP.stream().anyMatch(type -> type.getPackageName().equals(package_)))
                    .as(package_)
                    .isTrue();
        }
    }

    @Test
    void dependenciesPointOneWay() {
        layeredArchitecture()
                .consideringOnlyDependenciesInAnyPackage("dev.kcp..")
                .withOptionalLayers(true)
                .layer("conv-kernels")
                .definedBy("dev.kcp", "dev.kcp.files..", "dev.kcp.tensor..", "dev.kcp.conv..", "dev.kcp.cuda..")
                .layer("kcp-core")
                .definedBy("dev.kcp.core..", "dev.kcp.comm..")
                .layer("kcp-nccl")
                .definedBy("dev.kcp.nccl..")
                .layer("launcher")
                .definedBy("dev.kcp.launcher..", "dev.kcp.train..", "dev.kcp.bench..", "dev.kcp.plan..")
                .whereLayer("conv-kernels")
                .mayNotAccessAnyLayer()
                .whereLayer("kcp-core")
                .mayOnlyAccessLayers("conv-kernels")
                .whereLayer("kcp-nccl")
                .mayOnlyAccessLayers("kcp-core", "conv-kernels")
                .whereLayer("launcher")
                .mayNotBeAccessedByAnyLayer()
                .ensureAllClassesAreContainedInArchitecture()
                .check(KCP);
    }

    @Test
    void roomsKnowNoneOfThoseAboveThem() {
        doesNotKnow("dev.kcp.tensor..", "dev.kcp.conv..", "dev.kcp.cuda..");
        doesNotKnow("dev.kcp.cuda..", "dev.kcp.conv..");
        doesNotKnow("dev.kcp.conv", "dev.kcp.conv.cpu..", "dev.kcp.conv.cuda..", "dev.kcp.cuda..");
        doesNotKnow(
                "dev.kcp.conv.tree..", "dev.kcp.conv", "dev.kcp.conv.cpu..", "dev.kcp.conv.cuda..", "dev.kcp.cuda..");
        doesNotKnow("dev.kcp.conv.cpu..", "dev.kcp.conv.cuda..", "dev.kcp.cuda..");
        doesNotKnow("dev.kcp.conv.cuda..", "dev.kcp.conv.cpu..");
        doesNotKnow("dev.kcp.core..", "dev.kcp.conv.cpu..", "dev.kcp.conv.cuda..", "dev.kcp.cuda..");
        doesNotKnow("dev.kcp.comm..", "dev.kcp.core..", "dev.kcp.conv..", "dev.kcp.cuda..");
        doesNotKnow("dev.kcp.train..", "dev.kcp.launcher..", "dev.kcp.bench..", "dev.kcp.plan..");
        doesNotKnow(
                "dev.kcp.train",
                "dev.kcp.train.cuda..",
                "dev.kcp.train.cpu..",
                "dev.kcp.conv.cuda..",
                "dev.kcp.cuda..");
        doesNotKnow("dev.kcp.train.cpu..", "dev.kcp.train.cuda..", "dev.kcp.conv.cuda..", "dev.kcp.cuda..");
        doesNotKnow("dev.kcp.bench..", "dev.kcp.launcher..");
        doesNotKnow("dev.kcp.plan..", "dev.kcp.launcher..");
    }

    private static void doesNotKnow(String room, String... noneOf) {
        noClasses()
                .that()
                .resideInAPackage(room)
                .should()
                .dependOnClassesThat()
                .resideInAnyPackage(noneOf)
                .check(KCP);
    }

    @Test
    void theBindingOfTheDriverIsUsedByNamedClassesOnly() {
        assertThat(users(of -> of.getPackageName().startsWith("jcuda")))
                .containsExactlyInAnyOrder(
                        "CudaDevice",
                        "CudaEvent",
                        "CudaGraph",
                        "CudaStream",
                        "Driver",
                        "GraphMemory",
                        "Handles",
                        "HostCopies",
                        "KernelModule",
                        "PeerMemory");
    }

    @Test
    void librariesAreLoadedByNamedClassesOnly() {
        assertThat(callers(System.class, "load", "loadLibrary")).containsExactlyInAnyOrder("Cublas", "Nccl");
        assertThat(callers(SymbolLookup.class, "libraryLookup")).containsExactlyInAnyOrder("Driver", "LibraryProbe");
        assertThat(callers(Linker.class, "nativeLinker"))
                .containsExactlyInAnyOrder("Driver", "LibraryProbe", "NativeEnvironment", "OrphanReaper");
    }

    @Test
    void theEnvironmentIsReadByNamedClassesOnly() throws IOException {
        assertThat(callers(System.class, "getenv")).containsExactlyInAnyOrder("LocalAgent", "Main", "ThreadDumps");
        assertThat(sourcesWith("\"getenv\"")).containsExactly("NativeEnvironment.java");
    }

    private static Set<String> callers(Class<?> owner, String... methods) {
        return names(KCP.stream().filter(type -> type.getMethodCallsFromSelf().stream()
                .anyMatch(call -> call.getTargetOwner().isEquivalentTo(owner)
                        && List.of(methods).contains(call.getName()))));
    }

    private static Set<String> users(Predicate<JavaClass> of) {
        return names(KCP.stream().filter(type -> type.getDirectDependenciesFromSelf().stream()
                .map(Dependency::getTargetClass)
                .anyMatch(of)));
    }

    /** Of the outermost classes. */
    private static Set<String> names(Stream<JavaClass> types) {
        return types.map(type -> {
                    JavaClass outer = type;
                    while (outer.getEnclosingClass().isPresent()) {
                        outer = outer.getEnclosingClass().get();
                    }
                    return outer.getSimpleName();
                })
                .collect(Collectors.toSet());
    }

    private static List<String> sourcesWith(String text) throws IOException {
        List<String> found = new ArrayList<>();
        for (String module : List.of("conv-kernels", "kcp-core", "kcp-nccl", "launcher")) {
            Path sources = Path.of(System.getProperty("kcp.root"), module, "src/main/java");
            try (Stream<Path> files = Files.walk(sources)) {
                for (Path file : files.filter(Files::isRegularFile).toList()) {
                    if (Files.readString(file).contains(text)) {
                        found.add(file.getFileName().toString());
                    }
                }
            }
        }
        return found;
    }
}
