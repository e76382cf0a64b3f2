package dev.kcp.multirank;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.Architectures.layeredArchitecture;
import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import org.junit.jupiter.api.Test;

/** Modules depend one way: conv-kernels, kcp-core, kcp-nccl, launcher. */
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
    void environmentIsReadAtTheCommandOnly() {
        noClasses()
                .that()
                .resideOutsideOfPackage("dev.kcp.launcher..")
                .and()
                .doNotHaveFullyQualifiedName("dev.kcp.comm.RankInfo")
                .should()
                .callMethod(System.class, "getenv")
                .orShould()
                .callMethod(System.class, "getenv", String.class)
                .check(KCP);
    }
}
