package dev.kcp.cuda;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.extension.ExtendWith;

/** Tests that need two GPUs: reported as skipped where there are fewer; alone with {@code mvn verify -Pgpu2}. */
@Target({ElementType.TYPE, ElementType.METHOD})
@Retention(RetentionPolicy.RUNTIME)
@Tag("gpu2")
@ExtendWith(GpuCondition.class)
public @interface NeedsTwoGpus {}
