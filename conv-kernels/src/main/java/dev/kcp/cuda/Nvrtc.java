package dev.kcp.cuda;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.bytedeco.cuda.global.nvrtc;
import org.bytedeco.cuda.nvrtc._nvrtcProgram;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.PointerPointer;
import org.bytedeco.javacpp.SizeTPointer;

/** NVIDIA's runtime compiler, the one class that touches its binding. */
public final class Nvrtc {
    static final String LIBRARY = "libnvrtc.so.13";

    private Nvrtc() {}

    /** Whether the library can be loaded; the binding is touched only then, for it fails for good where it cannot. */
    public static boolean isInstalled() {
        return Driver.canLoad(LIBRARY);
    }

    /** As in {@code 13.0}. */
    static String version() {
        int[] major = new int[1];
        int[] minor = new int[1];
        check("nvrtcVersion", nvrtc.nvrtcVersion(major, minor));
        return major[0] + "." + minor[0];
    }

    /** GPU generations that it makes machine code for, as major * 10 + minor. */
    static Set<Integer> generations() {
        int[] count = new int[1];
        check("nvrtcGetNumSupportedArchs", nvrtc.nvrtcGetNumSupportedArchs(count));
        int[] found = new int[count[0]];
        check("nvrtcGetSupportedArchs", nvrtc.nvrtcGetSupportedArchs(found));
        Set<Integer> generations = new TreeSet<>();
        for (int generation : found) {
            generations.add(generation);
        }
        return generations;
    }

    /**
     * Compiles.
     *
     * @param architecture as in {@code sm_90}
     * @return a cubin
     * @throws KcpException with the compiler's log
     */
    static byte[] compile(KernelSource source, String architecture, List<String> options) {
        List<String> all = new ArrayList<>(options);
        all.add("--gpu-architecture=" + architecture);
        String[] names = source.headers().keySet().toArray(String[]::new);
        String[] texts = source.headers().values().toArray(String[]::new);
        try (BytePointer text = new BytePointer(source.text());
                BytePointer name = new BytePointer(source.name() + ".cu");
                PointerPointer<BytePointer> headerTexts = new PointerPointer<>(texts);
                PointerPointer<BytePointer> headerNames = new PointerPointer<>(names);
                PointerPointer<BytePointer> arguments = new PointerPointer<>(all.toArray(String[]::new));
                _nvrtcProgram program = new _nvrtcProgram()) {
            check(
                    "nvrtcCreateProgram",
                    nvrtc.nvrtcCreateProgram(program, text, name, names.length, headerTexts, headerNames));
            try {
                int result = nvrtc.nvrtcCompileProgram(program, all.size(), arguments);
                if (result != nvrtc.NVRTC_SUCCESS) {
                    throw new KcpException(
                            Code.MISSING_DEVICE,
                            describe("nvrtcCompileProgram", result) + " kernels=" + source.name() + " options=" + all
                                    + "\n" + log(program));
                }
                return cubin(program);
            } finally {
                nvrtc.nvrtcDestroyProgram(program);
            }
        }
    }

    private static String log(_nvrtcProgram program) {
        try (SizeTPointer bytes = new SizeTPointer(1)) {
            check("nvrtcGetProgramLogSize", nvrtc.nvrtcGetProgramLogSize(program, bytes));
            byte[] log = new byte[Math.toIntExact(bytes.get())];
            check("nvrtcGetProgramLog", nvrtc.nvrtcGetProgramLog(program, log));
            return new String(log, java.nio.charset.StandardCharsets.UTF_8)
                    .replace("\0", "")
                    .strip();
        }
    }

    private static byte[] cubin(_nvrtcProgram program) {
        try (SizeTPointer bytes = new SizeTPointer(1)) {
            check("nvrtcGetCUBINSize", nvrtc.nvrtcGetCUBINSize(program, bytes));
            byte[] code = new byte[Math.toIntExact(bytes.get())];
            check("nvrtcGetCUBIN", nvrtc.nvrtcGetCUBIN(program, code));
            return code;
        }
    }

    private static void check(String call, int result) {
        if (result != nvrtc.NVRTC_SUCCESS) {
            throw new KcpException(Code.MISSING_DEVICE, describe(call, result));
        }
    }

    private static String describe(String call, int result) {
        return call + " failed: " + nvrtc.nvrtcGetErrorString(result).getString() + " code=" + result;
    }
}
