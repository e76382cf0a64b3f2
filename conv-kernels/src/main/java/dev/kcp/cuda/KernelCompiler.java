package dev.kcp.cuda;

import dev.kcp.Digest;
import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

/**
 * Machine code for a GPU that the jar has none for, by NVRTC, once per user, source and GPU generation. It takes some
 * 20 to 40 seconds for all kernels.
 */
public final class KernelCompiler {
    private static final System.Logger LOGGER = System.getLogger(KernelCompiler.class.getName());

    /** As build.sh gives them to nvcc; the GPU's generation is added. */
    private static final List<String> OPTIONS = List.of("-std=c++20", "--fmad=false");

    private KernelCompiler() {}

    /** Whether NVRTC is here and knows the device's generation. */
    public static boolean isAvailable(CudaDevice device) {
        return Nvrtc.isInstalled() && Nvrtc.generations().contains(device.computeCapability());
    }

    /**
     * Compiles a file of kernels for a device, or takes what an earlier process of this user compiled.
     *
     * @throws KcpException with code MISSING_DEVICE if there is no NVRTC, or it does not know the GPU
     */
    static byte[] compile(KernelSource source, CudaDevice device) {
        int generation = device.computeCapability();
        String facts = " device=" + device.name() + " computeCapability=" + generation + " kernels=" + source.name();
        if (!Nvrtc.isInstalled()) {
            throw new KcpException(
                    Code.MISSING_DEVICE,
                    "this build of kcp has no kernels for this GPU and cannot compile them here: install NVRTC of CUDA 13 ("
                            + Nvrtc.LIBRARY
                            + "; add its folder to LD_LIBRARY_PATH), or build kcp where nvcc is on PATH or"
                            + " in CUDA_HOME:" + facts);
        }
        if (!Nvrtc.generations().contains(generation)) {
            throw new KcpException(
                    Code.MISSING_DEVICE,
                    "NVRTC " + Nvrtc.version() + " does not know this GPU: install the NVRTC of a CUDA that does:"
                            + facts);
        }
        return compile(source, generation, KernelCache.ofUser());
    }

    static byte[] compile(KernelSource source, int generation, KernelCache cache) {
        String architecture = "sm_" + generation;
        String key = source.name() + "-" + architecture + "-" + digest(source, architecture);
        byte[] kept = cache.get(key);
        if (kept != null) {
            return kept;
        }
        LOGGER.log(
                Level.INFO,
                "compiling {0} for {1} with NVRTC {2}; kept in {3}",
                source.name(),
                architecture,
                Nvrtc.version(),
                cache.folder());
        byte[] code = Nvrtc.compile(source, architecture, OPTIONS);
        Path file = cache.put(key, code);
        if (file == null) {
            LOGGER.log(
                    Level.WARNING,
                    "compiled kernels cannot be kept; the next process compiles them again: folder={0}",
                    cache.folder());
        }
        return code;
    }

    /** Of everything that machine code depends on. */
    private static String digest(KernelSource source, String architecture) {
        MessageDigest digest = Digest.sha256();
        add(digest, Nvrtc.version());
        add(digest, architecture);
        OPTIONS.forEach(option -> add(digest, option));
        add(digest, source.text());
        for (Map.Entry<String, String> header : source.headers().entrySet()) {
            add(digest, header.getKey());
            add(digest, header.getValue());
        }
        return HexFormat.of().formatHex(digest.digest(), 0, 16);
    }

    private static void add(MessageDigest digest, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        digest.update((bytes.length + ":").getBytes(StandardCharsets.UTF_8));
        digest.update(bytes);
    }
}
