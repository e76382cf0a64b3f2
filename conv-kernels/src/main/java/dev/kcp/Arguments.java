package dev.kcp;

/** What every call that takes arguments refuses alike. */
public final class Arguments {
    private Arguments() {}

    /**
     * The value itself.
     *
     * @throws IllegalArgumentException if it is null
     */
    public static <T> T present(String name, T value) {
        if (value == null) {
            throw new IllegalArgumentException(name + " is missing: " + name + "=null");
        }
        return value;
    }
}
