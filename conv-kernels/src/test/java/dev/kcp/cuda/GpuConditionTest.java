package dev.kcp.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.platform.commons.support.AnnotationSupport;

class GpuConditionTest {
    @Test
    void namedDevicesCountUpToThoseThatAreThere() {
        assertThat(GpuCondition.visible(null, 3)).isEqualTo(3);
        assertThat(GpuCondition.visible("", 3)).isZero();
        assertThat(GpuCondition.visible("-1", 3)).isZero();
        assertThat(GpuCondition.visible("2,0", 3)).isEqualTo(2);
        assertThat(GpuCondition.visible("1,-1,2", 3)).isEqualTo(1);
        assertThat(GpuCondition.visible("GPU-8932f937,GPU-11", 1)).isEqualTo(1);
    }

    /** What the profiles gpu and gpu2 select by. */
    @Test
    void theAnnotationsCarryTheirTags() {
        assertThat(tags(NeedsGpu.class)).containsExactly("gpu");
        assertThat(tags(NeedsTwoGpus.class)).containsExactly("gpu2");
    }

    private static List<String> tags(Class<?> annotation) {
        return AnnotationSupport.findRepeatableAnnotations(annotation, Tag.class).stream()
                .map(Tag::value)
                .toList();
    }
}
