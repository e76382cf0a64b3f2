package dev.kcp.launcher;

import java.lang.invoke.LambdaMetafactory;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

/**
 * What this JVM does at a signal, until it is closed. The JDK's classes for it, {@code sun.misc.Signal} and its handler, are
 * called by method handles: javac warns of every use that it sees, and this build takes no warnings.
 */
final class SignalAction implements AutoCloseable {
    private static final MethodHandles.Lookup LOOKUP = MethodHandles.lookup();

    private final MethodHandle handle;
    private final Object signal;
    private final Object previous;

    private SignalAction(MethodHandle handle, Object signal, Object previous) {
        this.handle = handle;
        this.signal = signal;
        this.previous = previous;
    }

    /**
     * Begins.
     *
     * @param name without SIG
     * @param action run by a thread of its own
     */
    static SignalAction on(String name, Runnable action) {
        try {
            Class<?> signals = Class.forName("sun.misc.Signal");
            Class<?> handlers = Class.forName("sun.misc.SignalHandler");
            MethodHandle handle =
                    LOOKUP.findStatic(signals, "handle", MethodType.methodType(handlers, signals, handlers));
            Object signal = LOOKUP.findConstructor(signals, MethodType.methodType(void.class, String.class))
                    .invoke(name);
            return new SignalAction(handle, signal, handle.invoke(signal, handler(signals, handlers, action)));
        } catch (IllegalArgumentException leftToTheSystem) {
            // With -Xrs the JVM keeps away from some signals.
            return new SignalAction(null, null, null);
        } catch (Throwable e) {
            throw new IllegalStateException("this JDK has no signals: signal=" + name, e);
        }
    }

    /** An object of the JDK's functional interface. */
    private static Object handler(Class<?> signals, Class<?> handlers, Runnable action) throws Throwable {
        MethodHandle run = LOOKUP.findStatic(
                SignalAction.class, "run", MethodType.methodType(void.class, Runnable.class, Object.class));
        MethodType takesSignal = MethodType.methodType(void.class, signals);
        return LambdaMetafactory.metafactory(
                        LOOKUP,
                        "handle",
                        MethodType.methodType(handlers, Runnable.class),
                        takesSignal,
                        run,
                        takesSignal)
                .getTarget()
                .invoke(action);
    }

    private static void run(Runnable action, Object signal) {
        action.run();
    }

    @Override
    public void close() {
        if (handle != null) {
            try {
                Object ignored = handle.invoke(signal, previous);
            } catch (Throwable e) {
                throw new IllegalStateException("a signal keeps its action: signal=" + signal, e);
            }
        }
    }
}
