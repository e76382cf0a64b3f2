package dev.kcp.train.report;

import dev.kcp.train.StepTimes;
import dev.kcp.train.TrainListener;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.ToDoubleFunction;

/** Collects what a run's pictures show, on the rank it belongs to. */
public final class Curves implements TrainListener {
    private static final double NANOS_PER_MILLI = TimeUnit.MILLISECONDS.toNanos(1);

    /**
     * One step.
     *
     * @param step counted from 1
     * @param loss in nats per byte
     * @param heldOutLoss on held-out text after the step, not a number where the run did not look
     * @param tokensPerSecond of this step, over all ranks
     * @param computeMillis neither waiting nor optimizer
     * @param exchangeMillis waiting for other ranks
     * @param optimizerMillis in the optimizer
     */
    public record Point(
            int step,
            double loss,
            double heldOutLoss,
            double tokensPerSecond,
            double computeMillis,
            double exchangeMillis,
            double optimizerMillis) {
        double totalMillis() {
            return computeMillis + exchangeMillis + optimizerMillis;
        }
    }

    private final long stepTokens;
    private final List<Point> points = new ArrayList<>();
    private double loss;
    private double heldOutLoss = Double.NaN;

    /**
     * No points yet.
     *
     * @param stepTokens tokens of a step over all ranks
     */
    public Curves(long stepTokens) {
        this.stepTokens = stepTokens;
    }

    @Override
    public void onHeldOut(int step, double lossThere) {
        heldOutLoss = lossThere;
    }

    @Override
    public void onStep(int step, double stepLoss, double tokensPerSecond) {
        loss = stepLoss;
    }

    @Override
    public void onTimes(int step, StepTimes times) {
        points.add(new Point(
                step,
                loss,
                heldOutLoss,
                stepTokens * (double) TimeUnit.SECONDS.toNanos(1) / Math.max(times.totalNanos(), 1),
                times.computeNanos() / NANOS_PER_MILLI,
                times.exchangeNanos() / NANOS_PER_MILLI,
                times.optimizerNanos() / NANOS_PER_MILLI));
        heldOutLoss = Double.NaN;
    }

    /** Steps so far, in order. */
    public List<Point> points() {
        return List.copyOf(points);
    }

    /**
     * At most {@code most} points: each the mean of a run of neighbours. A step that stands out in time, such as the first,
     * weighs as any other.
     */
    static List<Point> thinned(List<Point> points, int most) {
        if (points.size() <= most) {
            return points;
        }
        List<Point> thin = new ArrayList<>();
        for (int i = 0; i < most; i++) {
            List<Point> run =
                    points.subList((int) ((long) i * points.size() / most), (int) ((i + 1L) * points.size() / most));
            thin.add(new Point(
                    run.getLast().step(),
                    mean(run, Point::loss),
                    run.stream()
                            .mapToDouble(Point::heldOutLoss)
                            .filter(Double::isFinite)
                            .average()
                            .orElse(Double.NaN),
                    mean(run, Point::tokensPerSecond),
                    mean(run, Point::computeMillis),
                    mean(run, Point::exchangeMillis),
                    mean(run, Point::optimizerMillis)));
        }
        return thin;
    }

    static double median(List<Point> points, ToDoubleFunction<Point> of) {
        double[] sorted = points.stream().mapToDouble(of).sorted().toArray();
        return sorted.length == 0 ? 0 : sorted[sorted.length / 2];
    }

    private static double mean(List<Point> points, ToDoubleFunction<Point> of) {
        return points.stream().mapToDouble(of).average().orElse(0);
    }
}
