package dev.kcp.conv;

import static dev.kcp.Arguments.present;

import dev.kcp.conv.ConvEngine.Operands;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;

/**
 * The single-rank op: a depthwise causal convolution of width 4 with SiLU over packed documents, forward and backward.
 *
 * <pre>
 * p[t,c] = w[c,0]*x[t-3,c] + w[c,1]*x[t-2,c] + w[c,2]*x[t-1,c] + w[c,3]*x[t,c] + bias[c]     y = bf16(p * sigmoid(p))
 * </pre>
 *
 * Rows before a document's first token are zero. S = rows, C = channels, a multiple of 8. No result depends on an
 * earlier call; what an engine keeps is scratch, and tables known by the offsets themselves.
 *
 * <p>A caller may own the work space: one code serves every device.
 *
 * <pre>
 * if (!CausalConv1d.isSupported(device)) ...
 * try (ConvEngine engine = ConvEngines.open(device)) {
 *     CausalConv1d conv = new CausalConv1d(engine, options);
 *     conv.prepare();
 *     try (Memory workspace = conv.allocateBackwardWorkspace(S, C)) {
 *         conv.backward(x, weight, bias, cuSeqlens, dy, gradients, workspace);
 * </pre>
 *
 * The sizes depend on (S, C) and the engine's device alone and cover every documents' geometry, type and option; a work
 * space made for a larger S with the same C serves a smaller one. It starts at a multiple of 16 bytes, may hold anything
 * before a call, and holds nothing of use after it. Two launches that may overlap (on two streams) need two. What each
 * device puts there:
 *
 * <table>
 * <caption>Bytes</caption>
 * <tr><th></th><th>forward</th><th>backward</th></tr>
 * <tr><td>CPU</td><td>24 per channel: taps and bias as FP32, a row of zeros. Tiles of a fixed size stay with the engine's
 * threads</td><td>64 per channel: also the root of the sums. Leaf sums, at most some levels of the tree, stay with the
 * threads</td></tr>
 * <tr><td>CUDA</td><td>0: the program needs none, and has no counters</td><td>40 per channel for each 512 rows: sums
 * between the two launches; and two rows</td></tr>
 * </table>
 *
 * Without one, an engine uses a buffer of its own that grows with the largest call, and inside a capture by {@code
 * CudaGraph} one that the graph owns; a capture by somebody else needs {@code CudaConvEngine.prepare(S, C)} first, since
 * nothing may be allocated inside.
 */
public final class CausalConv1d {
    private final ConvEngine engine;
    private final ConvOptions options;

    /**
     * The operation on one device.
     *
     * @param engine the device's programs, borrowed
     */
    public CausalConv1d(ConvEngine engine, ConvOptions options) {
        this.engine = present("engine", engine);
        this.options = present("options", options);
    }

    /**
     * Whether an engine can be opened on the device: driver, device and programs for it are there. On the CPU always. The
     * answer for a GPU without machine code in this build is true where NVRTC can make it.
     */
    public static boolean isSupported(Device device) {
        return ConvEngines.isSupported(device);
    }

    /** Loads every program of the engine's device, so that no later call builds or loads one inside a capture. */
    public void prepare() {
        engine.prepare();
    }

    /**
     * Bytes of work space of {@link #forward(Tensor, Tensor, Tensor, Tensor, Tensor, Memory) forward}.
     *
     * @param rows S
     * @param channels C
     */
    public long forwardWorkspaceBytes(long rows, long channels) {
        return engine.forwardWorkspaceBytes(rows, channels);
    }

    /**
     * Bytes of work space of {@link #backward(Tensor, Tensor, Tensor, Tensor, Tensor, Gradients, Memory) backward}.
     *
     * @param rows S
     * @param channels C
     */
    public long backwardWorkspaceBytes(long rows, long channels) {
        return engine.backwardWorkspaceBytes(rows, channels);
    }

    /** A work space of {@link #forwardWorkspaceBytes} on the engine's device, closed by the caller. */
    public Memory allocateForwardWorkspace(long rows, long channels) {
        return engine.allocateWorkspace(forwardWorkspaceBytes(rows, channels));
    }

    /** A work space of {@link #backwardWorkspaceBytes} on the engine's device, closed by the caller. */
    public Memory allocateBackwardWorkspace(long rows, long channels) {
        return engine.allocateWorkspace(backwardWorkspaceBytes(rows, channels));
    }

    /** As below, in the engine's own work space. */
    public Tensor forward(Tensor x, Tensor weight, Tensor bias, Tensor cuSeqlens, Tensor out) {
        return forward(x, weight, bias, cuSeqlens, out, null);
    }

    /**
     * Computes y into {@code out}.
     *
     * @param x BF16 {@code [S, C]} or {@code [1, S, C]}, rows possibly pitched
     * @param weight FP32 or BF16 {@code [C, 4]}, the current token's tap last
     * @param bias FP32 or BF16 {@code [C]}, or null
     * @param cuSeqlens INT32 {@code [documents + 1]}
     * @param out BF16 of x's shape, or null for a new tensor that the caller closes
     * @param workspace the caller's, of {@link #forwardWorkspaceBytes} or more, or null for the engine's own
     * @return out, or the new tensor
     * @throws IllegalArgumentException before anything is computed, also where an output shares memory with an input or
     *     another output
     */
    public Tensor forward(Tensor x, Tensor weight, Tensor bias, Tensor cuSeqlens, Tensor out, Memory workspace) {
        ConvChecks.rows("x", x, engine.device());
        ConvChecks.parameters(x, weight, bias);
        apartFromOffsets("y", out, cuSeqlens);
        apartFromOffsets("workspace", workspace, cuSeqlens);
        try (Shard batch = engine.batch(cuSeqlens, x.rows(), options.allowSlack())) {
            Tensor y = out == null ? engine.allocate(DType.BF16, x.shape()) : out;
            try {
                engine.forward(batch, new Operands(x, weight, bias, null), options, y, workspace);
                return y;
            } catch (RuntimeException | Error e) {
                if (out == null) {
                    y.close();
                }
                throw e;
            }
        }
    }

    /** The engine checks all other arguments; the offsets it knows no longer when a program runs. */
    private static void apartFromOffsets(String name, Tensor output, Tensor cuSeqlens) {
        ConvChecks.apart(name, output, "cu_seqlens", cuSeqlens);
    }

    private static void apartFromOffsets(String name, Memory workspace, Tensor cuSeqlens) {
        if (workspace != null) {
            Tensor all = Tensor.over(workspace, DType.BF16, workspace.bytes() / DType.BF16.bytes());
            apartFromOffsets(name, all, cuSeqlens);
        }
    }

    /** As below, in the engine's own work space. */
    public Gradients backward(Tensor x, Tensor weight, Tensor bias, Tensor cuSeqlens, Tensor dy, Gradients out) {
        return backward(x, weight, bias, cuSeqlens, dy, out, null);
    }

    /**
     * Computes the gradients that {@code out} has room for.
     *
     * @param dy BF16 of x's shape, or null for zeros
     * @param out tensors to write; null gradients are not computed
     * @param workspace the caller's, of {@link #backwardWorkspaceBytes} or more, or null for the engine's own
     * @return out
     * @throws IllegalArgumentException before anything is computed, also where an output shares memory with an input or
     *     another output
     */
    public Gradients backward(
            Tensor x, Tensor weight, Tensor bias, Tensor cuSeqlens, Tensor dy, Gradients out, Memory workspace) {
        ConvChecks.rows("x", x, engine.device());
        ConvChecks.parameters(x, weight, bias);
        ConvChecks.gradients(x, bias, out);
        apartFromOffsets("dx", out.dx(), cuSeqlens);
        apartFromOffsets("dweight", out.dweight(), cuSeqlens);
        apartFromOffsets("dbias", out.dbias(), cuSeqlens);
        apartFromOffsets("workspace", workspace, cuSeqlens);
        try (Shard batch = engine.batch(cuSeqlens, x.rows(), options.allowSlack())) {
            engine.backward(batch, new Operands(x, weight, bias, null), options, dy, out, workspace);
        }
        return out;
    }
}
