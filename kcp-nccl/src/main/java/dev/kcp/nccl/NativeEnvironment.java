package dev.kcp.nccl;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/** The process's environment as native libraries read it; Java's own view of it does not change. */
final class NativeEnvironment {
    private static final int KEEP = 0;

    private NativeEnvironment() {}

    /** The value of a variable, or null. */
    @SuppressWarnings("restricted")
    static String get(String name) {
        Linker linker = Linker.nativeLinker();
        MethodHandle getenv = linker.downcallHandle(
                linker.defaultLookup().findOrThrow("getenv"),
                FunctionDescriptor.of(ValueLayout.ADDRESS, ValueLayout.ADDRESS));
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment value = (MemorySegment) getenv.invokeExact(arena.allocateFrom(name));
            return value.address() == 0
                    ? null
                    : value.reinterpret(Long.MAX_VALUE).getString(0);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }

    /** Sets a variable that the user has not set. */
    @SuppressWarnings("restricted")
    static void setIfAbsent(String name, String value) {
        Linker linker = Linker.nativeLinker();
        MethodHandle setenv = linker.downcallHandle(
                linker.defaultLookup().findOrThrow("setenv"),
                FunctionDescriptor.of(
                        ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.ADDRESS, ValueLayout.JAVA_INT));
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment cName = arena.allocateFrom(name);
            MemorySegment cValue = arena.allocateFrom(value);
            int failed = (int) setenv.invokeExact(cName, cValue, KEEP);
            if (failed != 0) {
                throw new IllegalStateException("setenv failed: name=" + name + " value=" + value);
            }
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }
}
