package dev.kcp.nccl;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Optional;

/**
 * Asks a shared library for its version without any native binding, whose classes fail for good where a library is missing.
 * The library is let go of afterwards.
 */
@SuppressWarnings("restricted") // calls functions whose signatures are written down here
public final class LibraryProbe {
    private LibraryProbe() {}

    /**
     * Calls {@code int function(int*, ...)}, by which NVIDIA's libraries tell their versions.
     *
     * @param library a path, or a bare name that the system's loader looks up
     * @param numbers how many pointers the function takes
     * @return the numbers; empty where the library cannot be loaded, has no such function, or does not answer with 0
     */
    public static Optional<int[]> version(String library, String function, int numbers) {
        try (Arena arena = Arena.ofConfined()) {
            SymbolLookup symbols = library.contains("/")
                    ? SymbolLookup.libraryLookup(Path.of(library), arena)
                    : SymbolLookup.libraryLookup(library, arena);
            Optional<MemorySegment> address = symbols.find(function);
            if (address.isEmpty()) {
                return Optional.empty();
            }
            MemorySegment room = arena.allocate(ValueLayout.JAVA_INT, numbers);
            MemoryLayout[] pointers = new MemoryLayout[numbers];
            Arrays.fill(pointers, ValueLayout.ADDRESS);
            Object[] arguments = new Object[numbers];
            for (int i = 0; i < numbers; i++) {
                arguments[i] = room.asSlice(i * ValueLayout.JAVA_INT.byteSize());
            }
            int result = (int) Linker.nativeLinker()
                    .downcallHandle(address.get(), FunctionDescriptor.of(ValueLayout.JAVA_INT, pointers))
                    .invokeWithArguments(arguments);
            return result == 0 ? Optional.of(room.toArray(ValueLayout.JAVA_INT)) : Optional.empty();
        } catch (IllegalArgumentException notLoadable) {
            return Optional.empty();
        } catch (Throwable e) {
            throw new IllegalStateException(
                    "cannot ask for a version: library=" + library + " function=" + function, e);
        }
    }
}
