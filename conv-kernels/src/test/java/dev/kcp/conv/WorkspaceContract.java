package dev.kcp.conv;

import static dev.kcp.conv.Tolerance.assertSameBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What a caller may rely on when it owns the work space; the same tests for every device. */
abstract class WorkspaceContract {
    private static final int GUARD_BYTES = 256;
    private static final byte CANARY = 0x5A;

    private final List<AutoCloseable> owned = new ArrayList<>();

    /** The engine under test, closed by the subclass. */
    abstract ConvEngine engine();

    /** A copy on the engine's device. */
    abstract Tensor place(Tensor host);

    /** A copy on the host. */
    abstract Tensor host(Tensor placed);

    abstract void fill(Memory memory, byte value);

    @AfterEach
    void closeOwned() throws Exception {
        for (AutoCloseable one : owned) {
            one.close();
        }
    }

    private <T extends AutoCloseable> T own(T one) {
        owned.add(one);
        return one;
    }

    private CausalConv1d conv(SiluGradPolicy policy) {
        return new CausalConv1d(engine(), ConvOptions.DEFAULT.withPolicy(policy));
    }

    private CausalConv1d conv() {
        return conv(SiluGradPolicy.BF16);
    }

    /** A case's tensors on the device. */
    private record Placed(Tensor x, Tensor weight, Tensor bias, Tensor offsets, Tensor dy, Tensor y, Gradients out) {}

    private Placed placed(ConvCase in) {
        return new Placed(
                own(place(in.x())),
                own(place(in.weight())),
                in.bias() == null ? null : own(place(in.bias())),
                own(place(in.offsets())),
                own(place(in.dy())),
                own(engine().allocate(DType.BF16, in.rows(), in.channels())),
                own(new Gradients(
                        engine().allocate(DType.BF16, in.rows(), in.channels()),
                        engine().allocate(DType.F32, in.channels(), 4),
                        in.bias() == null ? null : engine().allocate(DType.F32, in.channels()))));
    }

    /** Exactly so many poisoned bytes between canaries. */
    private final class Guarded {
        private final Memory all;
        private final long bytes;
        final Memory inner;

        Guarded(long bytes) {
            this.bytes = bytes;
            all = own(engine().allocateWorkspace(bytes + 2 * GUARD_BYTES));
            fill(all, CANARY);
            inner = Memory.borrow(engine().device(), all.address() + GUARD_BYTES, bytes);
            fill(inner, (byte) 0xFF);
        }

        void assertCanariesIntact() {
            Tensor bf16 = own(host(Tensor.over(all, DType.BF16, all.bytes() / 2)));
            byte[] now = bf16.segment().toArray(ValueLayout.JAVA_BYTE);
            for (int i = 0; i < GUARD_BYTES; i++) {
                assertThat(now[i]).as("byte %d before", GUARD_BYTES - i).isEqualTo(CANARY);
                assertThat(now[now.length - 1 - i])
                        .as("byte %d after %d", GUARD_BYTES - i, bytes)
                        .isEqualTo(CANARY);
            }
        }
    }

    @ParameterizedTest
    @EnumSource(SiluGradPolicy.class)
    void resultsAreThoseOfTheEnginesOwnAndNoByteOutsideIsWritten(SiluGradPolicy policy) {
        for (DType biasType : new DType[] {null, DType.BF16}) {
            ConvCase in = own(ConvCase.random(3, 136, DType.F32, biasType, 0, 5, 700, 64, 3));
            Placed want = placed(in);
            conv(policy).forward(want.x, want.weight, want.bias, want.offsets, want.y);
            conv(policy).backward(want.x, want.weight, want.bias, want.offsets, want.dy, want.out);
            Placed got = placed(in);
            Guarded forward = new Guarded(conv().forwardWorkspaceBytes(in.rows(), in.channels()));
            Guarded backward = new Guarded(conv().backwardWorkspaceBytes(in.rows(), in.channels()));
            for (int call = 0; call < 2; call++) {
                conv(policy).forward(got.x, got.weight, got.bias, got.offsets, got.y, forward.inner);
                conv(policy).backward(got.x, got.weight, got.bias, got.offsets, got.dy, got.out, backward.inner);
                assertSame(got, want);
            }
            forward.assertCanariesIntact();
            backward.assertCanariesIntact();
        }
    }

    private void assertSame(Placed got, Placed want) {
        assertSameBits("y", own(host(got.y)), own(host(want.y)));
        assertSameGradients(got.out, want.out);
    }

    private void assertSameGradients(Gradients got, Gradients want) {
        assertSameBits("dx", own(host(got.dx())), own(host(want.dx())));
        assertSameBits("dweight", own(host(got.dweight())), own(host(want.dweight())));
        if (want.dbias() != null) {
            assertSameBits("dbias", own(host(got.dbias())), own(host(want.dbias())));
        }
    }

    @Test
    void anAbsentDyAndGradientsThatNobodyAsksFor() {
        ConvCase in = own(ConvCase.random(4, 24, 90, 700));
        Placed want = placed(in);
        Placed got = placed(in);
        Guarded space = new Guarded(conv().backwardWorkspaceBytes(in.rows(), in.channels()));
        conv().backward(want.x, want.weight, null, want.offsets, null, want.out);
        conv().backward(got.x, got.weight, null, got.offsets, null, got.out, space.inner);
        assertSameGradients(got.out, want.out);
        conv().backward(want.x, want.weight, null, want.offsets, want.dy, want.out);
        Gradients sumsAlone = new Gradients(null, got.out.dweight(), null);
        conv().backward(got.x, got.weight, null, got.offsets, got.dy, sumsAlone, space.inner);
        Gradients dxAlone = new Gradients(got.out.dx(), null, null);
        conv().backward(got.x, got.weight, null, got.offsets, got.dy, dxAlone, space.inner);
        assertSameGradients(got.out, want.out);
        space.assertCanariesIntact();
    }

    @Test
    void oneMadeForMoreRowsServesFewer() {
        ConvCase in = own(ConvCase.random(5, 64, 40, 30));
        Placed want = placed(in);
        Placed got = placed(in);
        conv().backward(want.x, want.weight, null, want.offsets, want.dy, want.out);
        assertThat(conv().backwardWorkspaceBytes(10_000, 64))
                .isGreaterThanOrEqualTo(conv().backwardWorkspaceBytes(70, 64));
        Memory space = own(conv().allocateBackwardWorkspace(10_000, 64));
        conv().backward(got.x, got.weight, null, got.offsets, got.dy, got.out, space);
        assertSameGradients(got.out, want.out);
    }

    @Test
    void allocatorsGiveZerosOfTheSizeThatIsTold() {
        Memory forward = own(conv().allocateForwardWorkspace(700, 64));
        Memory backward = own(conv().allocateBackwardWorkspace(700, 64));
        assertThat(forward.bytes()).isEqualTo(conv().forwardWorkspaceBytes(700, 64));
        assertThat(backward.bytes())
                .isEqualTo(conv().backwardWorkspaceBytes(700, 64))
                .isPositive();
        assertThat(backward.device()).isEqualTo(engine().device());
        Tensor host = own(host(Tensor.over(backward, DType.BF16, backward.bytes() / 2)));
        assertThat(host.segment().toArray(ValueLayout.JAVA_BYTE)).containsOnly(0);
    }

    @Test
    void noTokens() {
        ConvCase in = own(ConvCase.random(6, 8, 0, 0));
        Placed got = placed(in);
        Memory forward = own(conv().allocateForwardWorkspace(0, 8));
        Memory backward = own(conv().allocateBackwardWorkspace(0, 8));
        conv().forward(got.x, got.weight, null, got.offsets, got.y, forward);
        conv().backward(got.x, got.weight, null, got.offsets, got.dy, got.out, backward);
        assertThat(own(host(got.out.dweight())).segment().toArray(ValueLayout.JAVA_BYTE))
                .containsOnly(0);
    }

    @Test
    void tooSmallMisalignedOrElsewhereIsRefusedBeforeAnyLaunch() {
        ConvCase in = own(ConvCase.random(7, 64, 40, 700));
        Placed got = placed(in);
        Tensor[] results = {got.y, got.out.dx(), got.out.dweight()};
        for (Tensor result : results) {
            long bytes = result.elements() * result.dtype().bytes();
            fill(Memory.borrow(engine().device(), result.address(), bytes), CANARY);
        }
        long wanted = conv().backwardWorkspaceBytes(in.rows(), in.channels());
        Memory room = own(engine().allocateWorkspace(wanted + 64));
        Device device = engine().device();
        assertThatIllegalArgumentException()
                .isThrownBy(() -> backward(got, Memory.borrow(device, room.address(), wanted - 1)))
                .withMessageEndingWith("bytes=" + (wanted - 1) + " wanted=" + wanted);
        assertThatIllegalArgumentException()
                .isThrownBy(() -> backward(got, Memory.borrow(device, room.address() + 8, wanted)))
                .withMessageContaining("multiple of 16 bytes")
                .withMessageEndingWith("address=0x" + Long.toHexString(room.address() + 8));
        Device other = new Device(Device.Kind.CUDA, 9);
        Memory elsewhere = Memory.borrow(other, room.address(), wanted);
        assertThatIllegalArgumentException()
                .isThrownBy(() -> backward(got, elsewhere))
                .withMessageEndingWith("device=cuda:9 wanted=" + device);
        assertThatIllegalArgumentException()
                .isThrownBy(() -> conv().forward(got.x, got.weight, null, got.offsets, got.y, elsewhere))
                .withMessageEndingWith("device=cuda:9 wanted=" + device);
        long forwardWanted = conv().forwardWorkspaceBytes(in.rows(), in.channels());
        if (forwardWanted > 0) {
            Memory small = Memory.borrow(device, room.address(), forwardWanted - 1);
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> conv().forward(got.x, got.weight, null, got.offsets, got.y, small))
                    .withMessageEndingWith("bytes=" + (forwardWanted - 1) + " wanted=" + forwardWanted);
        }
        for (Tensor untouched : results) {
            assertThat(own(host(untouched)).segment().toArray(ValueLayout.JAVA_BYTE))
                    .containsOnly(CANARY);
        }
        assertThatCode(() -> backward(got, Memory.borrow(device, room.address() + 16, wanted)))
                .doesNotThrowAnyException();
    }

    private void backward(Placed got, Memory space) {
        conv().backward(got.x, got.weight, null, got.offsets, got.dy, got.out, space);
    }

    @Test
    void sizesThatAreNone() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> conv().backwardWorkspaceBytes(-1, 8))
                .withMessageEndingWith("rows=-1 channels=8");
    }

    /** The same code opens an engine of any device. */
    @Test
    void theDeviceIsSupportedAndPrepared() {
        assertThat(CausalConv1d.isSupported(engine().device())).isTrue();
        ConvCase in = own(ConvCase.random(8, 16, 40));
        Placed want = placed(in);
        conv().forward(want.x, want.weight, null, want.offsets, want.y);
        conv().prepare();
        conv().forward(want.x, want.weight, null, want.offsets, want.y);
        try (ConvEngine other = ConvEngines.open(engine().device())) {
            assertThat(other.device()).isEqualTo(engine().device());
        }
    }
}
