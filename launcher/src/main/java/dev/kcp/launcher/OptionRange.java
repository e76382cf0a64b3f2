package dev.kcp.launcher;

/** Numbers that options give. A refusal names the option as it is typed; what the records below say names their fields. */
final class OptionRange {
    private OptionRange() {}

    /**
     * A whole number in a range.
     *
     * @param option the option as it is typed, dashes included
     * @param most the last number allowed, or {@link Integer#MAX_VALUE} for any
     * @throws IllegalArgumentException if it is outside
     */
    static int within(String option, int value, int least, int most) {
        if (value < least || value > most) {
            String range = most == Integer.MAX_VALUE ? "at least " + least : "from " + least + " to " + most;
            throw new IllegalArgumentException(option + " must be " + range + ": " + name(option) + "=" + value);
        }
        return value;
    }

    /** @throws IllegalArgumentException if the number is below {@code least} */
    static int atLeast(String option, int value, int least) {
        return within(option, value, least, Integer.MAX_VALUE);
    }

    /** @throws IllegalArgumentException if the number is not above 0, or not finite */
    static double positive(String option, double value) {
        if (!(value > 0 && Double.isFinite(value))) {
            throw new IllegalArgumentException(option + " must be above 0: " + name(option) + "=" + value);
        }
        return value;
    }

    /** @throws IllegalArgumentException unless it is a multiple of 8 above 0, which the convolution needs */
    static int channels(int value) {
        if (value < 1 || value % 8 != 0) {
            throw new IllegalArgumentException("--channels must be a positive multiple of 8: channels=" + value);
        }
        return value;
    }

    /** The option without its dashes, as messages pair it with its value. */
    static String name(String option) {
        return option.replaceFirst("^-+", "");
    }
}
