package dev.kcp.train;

import java.io.PrintStream;
import java.util.Locale;
import me.tongfei.progressbar.ConsoleProgressBarConsumer;
import me.tongfei.progressbar.ProgressBar;
import me.tongfei.progressbar.ProgressBarBuilder;
import me.tongfei.progressbar.ProgressBarStyle;

/** Shows how a run comes along: one line that is written over on a terminal, else a line every so often. */
public interface Progress extends TrainListener, AutoCloseable {
    /** How progress is shown. */
    enum Style {
        /** One line that is written over. */
        BAR,
        /** Lines, one after another. */
        LINES,
        /** Not at all. */
        NONE
    }

    /** Ends the line that is written over; twice is harmless. */
    @Override
    default void close() {}

    /** Progress of a run of so many steps, shown on {@code out}. */
    static Progress of(Style style, int steps, PrintStream out) {
        return switch (style) {
            case BAR -> new Bar(steps, out);
            case LINES -> new Lines(steps, out);
            case NONE -> (step, loss, tokensPerSecond) -> {};
        };
    }

    /**
     * About forty lines of the whole run, the first step that is made and the last among them, and one for each look at
     * held-out text.
     */
    final class Lines implements Progress {
        private static final int LINES = 40;

        private final int steps;
        private final PrintStream out;
        private int firstStep = 1;
        private double heldOut = Double.NaN;

        Lines(int steps, PrintStream out) {
            this.steps = steps;
            this.out = out;
        }

        @Override
        public void onBegin(int stepsBefore) {
            firstStep = stepsBefore + 1;
        }

        @Override
        public void onHeldOut(int step, double loss) {
            heldOut = loss;
        }

        @Override
        public void onStep(int step, double loss, double tokensPerSecond) {
            int every = Math.max(1, (steps + LINES - 1) / LINES);
            if (step == firstStep || step == steps || step % every == 0 || !Double.isNaN(heldOut)) {
                out.println("step " + step + "/" + steps + "  " + figures(loss, heldOut, tokensPerSecond));
                out.flush();
                heldOut = Double.NaN;
            }
        }
    }

    /** A progress bar. */
    final class Bar implements Progress {
        // The bar's own terminal detection fails behind the launcher's pipe, so its width is fixed.
        private static final int WIDTH = 100;

        private final Line line;
        private final ProgressBar bar;
        private double heldOut = Double.NaN;

        Bar(int steps, PrintStream out) {
            line = new Line(out);
            bar = new ProgressBarBuilder()
                    .setTaskName("train")
                    .setInitialMax(steps)
                    .setStyle(ProgressBarStyle.ASCII)
                    .setMaxRenderedLength(WIDTH)
                    .setConsumer(line)
                    .build();
        }

        @Override
        public void onHeldOut(int step, double loss) {
            heldOut = loss;
        }

        @Override
        public void onStep(int step, double loss, double tokensPerSecond) {
            // The last one known stays in sight.
            bar.setExtraMessage(figures(loss, heldOut, tokensPerSecond));
            bar.stepTo(step);
        }

        @Override
        public void close() {
            if (!line.ended) {
                bar.close();
                // A bar that was closed before it was first drawn does not end its line.
                line.close();
            }
        }

        /** The line on the terminal; ended once. */
        private static final class Line extends ConsoleProgressBarConsumer {
            private volatile boolean ended;

            Line(PrintStream out) {
                super(out, WIDTH);
            }

            @Override
            public synchronized void close() {
                if (!ended) {
                    ended = true;
                    super.close();
                }
            }
        }
    }

    /** @param heldOut not a number where there is none */
    private static String figures(double loss, double heldOut, double tokensPerSecond) {
        return String.format(
                Locale.ROOT,
                "loss %.4f%s  %.0f tokens/s",
                loss,
                Double.isNaN(heldOut) ? "" : String.format(Locale.ROOT, "  held out %.4f", heldOut),
                tokensPerSecond);
    }
}
