package dev.kcp.launcher;

import dev.kcp.conv.cuda.CudaConvEngine;
import dev.kcp.launcher.Check.Need;
import dev.kcp.launcher.Check.State;
import dev.kcp.nccl.LibraryProbe;
import java.io.IOException;
import java.io.InputStream;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Optional;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * What {@code kcp doctor} says of GPU programs: whether the jar holds machine code for the GPUs of this machine, and whether
 * it could be compiled here. Nothing of a GPU's driver is loaded.
 */
final class KernelChecks {
    private static final List<String> FILES = List.of("conv_forward.fatbin", "conv_backward.fatbin");
    private static final String COMPILER = "libnvrtc.so.13";

    private static final int FILE_MAGIC = 0xba55ed50;
    private static final short MACHINE_CODE = 2;
    private static final int HEADER_BYTES_OFFSET = 6;
    private static final int PART_HEADER_BYTES_OFFSET = 4;
    private static final int PART_BYTES_OFFSET = 8;
    private static final int PART_GENERATION_OFFSET = 28;

    private KernelChecks() {}

    /** @param capabilities of the GPUs here, as major * 10 + minor */
    static List<Check> all(SortedSet<Integer> capabilities) {
        Optional<String> compiler = LibraryProbe.version(COMPILER, "nvrtcVersion", 2)
                .map(numbers -> "NVRTC " + numbers[0] + "." + numbers[1]);
        return List.of(
                kernels(inJar(), capabilities, compiler),
                new Check(
                        "nvrtc",
                        compiler.isPresent() ? State.OK : State.NOTE,
                        compiler.map(version -> version + " " + COMPILER)
                                .orElse("no " + COMPILER + "; only GPUs that kcp has no kernels for need it"),
                        List.of()));
    }

    /**
     * @param built generations that there are kernels for
     * @param compiler its name, if there is one here
     */
    static Check kernels(SortedSet<Integer> built, SortedSet<Integer> capabilities, Optional<String> compiler) {
        String has = built.isEmpty()
                ? "none in this build"
                : "for " + built.stream().map(generation -> "sm_" + generation).collect(Collectors.joining(", "));
        List<Integer> lacking = capabilities.stream()
                .filter(capability -> built.stream().noneMatch(generation -> runsOn(generation, capability)))
                .toList();
        if (lacking.isEmpty() && !built.isEmpty()) {
            return new Check("kernels", State.OK, has, List.of(Need.CUDA));
        }
        String wanted = lacking.isEmpty() ? "" : ", and the GPU's generation is sm_" + lacking.getFirst();
        if (compiler.isPresent()) {
            return new Check(
                    "kernels",
                    State.NOTE,
                    has + wanted + "; " + compiler.get() + " compiles them at the first use",
                    List.of(Need.CUDA));
        }
        return new Check(
                "kernels",
                State.MISSING,
                has + wanted + ": build kcp where nvcc of CUDA 13 is on PATH or in CUDA_HOME, or install " + COMPILER,
                List.of(Need.CUDA));
    }

    /** Machine code runs on its own generation and on later ones of the same major version. */
    private static boolean runsOn(int generation, int capability) {
        return generation / 10 == capability / 10 && generation <= capability;
    }

    /** Generations that every file of kernels in the jar holds machine code for. */
    private static SortedSet<Integer> inJar() {
        SortedSet<Integer> all = null;
        for (String file : FILES) {
            SortedSet<Integer> here = new TreeSet<>();
            try (InputStream in = CudaConvEngine.class.getResourceAsStream(file)) {
                if (in != null) {
                    here = generations(in.readAllBytes());
                }
            } catch (IOException unreadable) {
                return new TreeSet<>();
            }
            if (all == null) {
                all = here;
            } else {
                all.retainAll(here);
            }
        }
        return all;
    }

    /**
     * The generations in nvcc's container: a header, then parts, each a header with kind, sizes and generation, and its code.
     * Empty for what is no such container.
     */
    static SortedSet<Integer> generations(byte[] container) {
        SortedSet<Integer> generations = new TreeSet<>();
        ByteBuffer in = ByteBuffer.wrap(container).order(ByteOrder.LITTLE_ENDIAN);
        try {
            if (in.getInt(0) != FILE_MAGIC) {
                return generations;
            }
            long at = Short.toUnsignedInt(in.getShort(HEADER_BYTES_OFFSET));
            while (at + PART_GENERATION_OFFSET + Integer.BYTES <= container.length) {
                int part = (int) at;
                if (in.getShort(part) == MACHINE_CODE) {
                    generations.add(in.getInt(part + PART_GENERATION_OFFSET));
                }
                long partBytes = in.getInt(part + PART_HEADER_BYTES_OFFSET) + in.getLong(part + PART_BYTES_OFFSET);
                if (partBytes <= 0) {
                    break;
                }
                at += partBytes;
            }
        } catch (IndexOutOfBoundsException | BufferUnderflowException cutOff) {
            return generations;
        }
        return generations;
    }
}
