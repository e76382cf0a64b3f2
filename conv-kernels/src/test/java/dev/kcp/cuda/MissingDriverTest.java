package dev.kcp.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import dev.kcp.KcpException;
import dev.kcp.conv.cuda.CudaConvEngine;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import org.junit.jupiter.api.Test;

/** A machine without a GPU is told so in one line, each time. */
class MissingDriverTest {
    @Test
    void openingADeviceWithoutADriverSaysWhichLibraryIsMissing() {
        assumeFalse(hasDriver(), "this machine has a driver");
        for (int attempt = 0; attempt < 2; attempt++) {
            assertThatThrownBy(() -> CudaConvEngine.open(0)).isInstanceOfSatisfying(KcpException.class, e -> {
                assertThat(e.code()).isEqualTo(KcpException.Code.MISSING_DEVICE);
                assertThat(e.getMessage()).contains("libcuda.so.1").doesNotContain("\n");
            });
        }
    }

    @SuppressWarnings("restricted")
    private static boolean hasDriver() {
        try {
            SymbolLookup.libraryLookup("libcuda.so.1", Arena.global());
            return true;
        } catch (IllegalArgumentException e) {
            return false;
        }
    }
}
