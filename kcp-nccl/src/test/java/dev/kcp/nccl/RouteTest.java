package dev.kcp.nccl;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Map;
import org.junit.jupiter.api.Test;

class RouteTest {
    @Test
    void rowsGoDirectlyUnlessTheUserSaysOtherwise() {
        assertThat(Route.from(Map.of())).isEqualTo(Route.DIRECT);
        assertThat(Route.from(Map.of("KCP_ROUTE", "direct"))).isEqualTo(Route.DIRECT);
        assertThat(Route.from(Map.of("KCP_ROUTE", "Collective"))).isEqualTo(Route.COLLECTIVE);
    }

    @Test
    void anotherWordIsRefusedWithItsValue() {
        assertThatThrownBy(() -> Route.from(Map.of("KCP_ROUTE", "fast")))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageEndingWith("KCP_ROUTE=fast");
    }
}
