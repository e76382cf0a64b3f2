package dev.kcp.conv.cuda;

import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.cuda.CudaDevice;
import dev.kcp.cuda.CudaStream;
import dev.kcp.cuda.NeedsGpu;
import org.junit.jupiter.api.Test;

/** An engine whose stream was closed before it. */
@NeedsGpu
class CudaCloseTest {
    @Test
    void theWaitForTheStreamFailsAndTheRestIsReleased() {
        try (CudaDevice device = CudaDevice.open(0)) {
            CudaStream stream = CudaStream.create(device);
            CudaConvEngine engine = CudaConvEngine.on(stream, false);
            engine.prepare(1000, 64);
            stream.close();
            assertThatThrownBy(engine::close)
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("the stream was closed")
                    .hasNoSuppressedExceptions();
            engine.close();
            assertThatIllegalStateException().isThrownBy(engine::prepare);
        }
    }
}
