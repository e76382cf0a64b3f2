package dev.kcp.train.report;

import de.erichseifert.vectorgraphics2d.Document;
import de.erichseifert.vectorgraphics2d.VectorGraphics2D;
import de.erichseifert.vectorgraphics2d.svg.SVGProcessor;
import de.erichseifert.vectorgraphics2d.util.PageSize;
import java.awt.BasicStroke;
import java.awt.Color;
import java.awt.Font;
import java.awt.Graphics2D;
import java.awt.RenderingHints;
import java.awt.image.BufferedImage;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.function.ToDoubleFunction;
import javax.imageio.ImageIO;
import org.knowm.xchart.XYChart;
import org.knowm.xchart.XYChartBuilder;
import org.knowm.xchart.XYSeries;
import org.knowm.xchart.style.Styler;
import org.knowm.xchart.style.markers.SeriesMarkers;

/** Draws a run's curves: loss, tokens per second, and where the time of a step went. */
public final class CurveCharts {
    /** Points that a line shows at most; more could not be told apart. */
    private static final int MOST_POINTS = 240;

    private static final int FONT_PIXELS = 13;
    private static final int HELD_OUT_PIXELS = 5;
    private static final Color LOSS = new Color(0x0B5FA5);
    private static final Color HELD_OUT = new Color(0xB5417A);
    private static final Color SPEED = new Color(0x1E7B34);
    private static final Color COMPUTE = new Color(0x6FA8DC);
    private static final Color EXCHANGE = new Color(0xE07B39);
    private static final Color OPTIMIZER = new Color(0x8E7CC3);
    private static final Color INK = new Color(0x24292F);
    private static final Color GRID = new Color(0xD8DEE4);

    /**
     * Size of one chart.
     *
     * @param width in pixels
     * @param height in pixels
     */
    public record Size(int width, int height) {
        /** For a page or a screen. */
        public static final Size WIDE = new Size(960, 300);
        /** For a phone. */
        public static final Size NARROW = new Size(370, 260);
    }

    /** What a chart shows. */
    public enum Kind {
        /** Nats per byte. */
        LOSS,
        /** Tokens per second. */
        SPEED,
        /** Milliseconds of a step, split into compute, exchange and optimizer. */
        TIME
    }

    static {
        // Before the first use of AWT, which else looks for the display that DISPLAY names, to draw into files.
        System.setProperty("java.awt.headless", "true");
    }

    private CurveCharts() {}

    /** Why this machine cannot draw, where it cannot: Java's drawing needs libraries and a font. */
    public static Optional<String> cannotDraw() {
        return Drawing.FAILURE;
    }

    /** Tried once. */
    private static final class Drawing {
        private static final Optional<String> FAILURE = failure();

        private static Optional<String> failure() {
            try {
                svg(Kind.LOSS, List.of(new Curves.Point(1, 1, 1, 1, 1, 0, 0)), Size.NARROW);
                return Optional.empty();
            } catch (OutOfMemoryError memory) {
                throw memory;
            } catch (Error | RuntimeException missing) {
                // Of many kinds: without fonts it is a plain Error, without libraries a LinkageError, or an
                // InternalError.
                return Optional.of(missing.toString());
            }
        }
    }

    /**
     * All charts as one picture, SVG or PNG.
     *
     * @param points at least one
     */
    public static byte[] picture(boolean isSvg, List<Curves.Point> points) {
        if (isSvg) {
            return picture(List.of(Kind.values()), points, Size.WIDE).getBytes(StandardCharsets.UTF_8);
        }
        ByteArrayOutputStream png = new ByteArrayOutputStream();
        try {
            ImageIO.write(bitmap(points), "png", png);
        } catch (IOException inMemory) {
            throw new UncheckedIOException(inMemory);
        }
        return png.toByteArray();
    }

    /** Whether the name ends in .svg; a name that ends in neither .svg nor .png is an {@link IllegalArgumentException}. */
    public static boolean isSvg(Path file) {
        String name = file.getFileName().toString().toLowerCase(Locale.ROOT);
        if (!name.endsWith(".svg") && !name.endsWith(".png")) {
            throw new IllegalArgumentException("a picture's name ends in .svg or .png: plot=" + file);
        }
        return name.endsWith(".svg");
    }

    /** One chart as an SVG document. */
    static String svg(Kind kind, List<Curves.Point> points, Size size) {
        return picture(List.of(kind), points, size);
    }

    private static String picture(List<Kind> kinds, List<Curves.Point> points, Size size) {
        VectorGraphics2D graphics = new VectorGraphics2D();
        paint(graphics, kinds, points, size);
        int height = kinds.size() * size.height();
        Document document =
                new SVGProcessor().getDocument(graphics.getCommands(), new PageSize(0, 0, size.width(), height));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try {
            document.writeTo(out);
        } catch (IOException inMemory) {
            throw new UncheckedIOException(inMemory);
        }
        // The library gives the size in millimetres of paper, which browsers show larger or smaller than it was drawn.
        return out.toString(StandardCharsets.UTF_8)
                .replaceFirst(
                        "width=\"[^\"]*mm\"", "width=\"" + size.width() + "\" style=\"max-width:100%;height:auto\"")
                .replaceFirst("height=\"[^\"]*mm\"", "height=\"" + height + "\"")
                .replaceFirst("viewBox=\"[^\"]*\"", "viewBox=\"0 0 " + size.width() + " " + height + "\"")
                // A hundredth of a pixel is enough, and makes files half as large.
                .replaceAll("(\\d\\.\\d\\d)\\d+", "$1");
    }

    private static BufferedImage bitmap(List<Curves.Point> points) {
        Size size = Size.WIDE;
        int scale = 2;
        List<Kind> kinds = List.of(Kind.values());
        BufferedImage image = new BufferedImage(
                scale * size.width(), scale * kinds.size() * size.height(), BufferedImage.TYPE_INT_RGB);
        Graphics2D graphics = image.createGraphics();
        graphics.setRenderingHint(RenderingHints.KEY_ANTIALIASING, RenderingHints.VALUE_ANTIALIAS_ON);
        graphics.setRenderingHint(RenderingHints.KEY_TEXT_ANTIALIASING, RenderingHints.VALUE_TEXT_ANTIALIAS_ON);
        graphics.scale(scale, scale);
        paint(graphics, kinds, points, size);
        graphics.dispose();
        return image;
    }

    private static void paint(Graphics2D graphics, List<Kind> kinds, List<Curves.Point> points, Size size) {
        List<Curves.Point> shown = drawable(Curves.thinned(points, MOST_POINTS));
        for (Kind kind : kinds) {
            chart(kind, shown, size).paint(graphics, size.width(), size.height());
            graphics.translate(0, size.height());
        }
    }

    /** A lone point has no line; it is drawn from the step before. */
    private static List<Curves.Point> drawable(List<Curves.Point> points) {
        if (points.size() > 1) {
            return points;
        }
        Curves.Point one = points.getFirst();
        return List.of(
                new Curves.Point(
                        one.step() - 1,
                        one.loss(),
                        one.heldOutLoss(),
                        one.tokensPerSecond(),
                        one.computeMillis(),
                        one.exchangeMillis(),
                        one.optimizerMillis()),
                one);
    }

    private static XYChart chart(Kind kind, List<Curves.Point> points, Size size) {
        XYChart chart = new XYChartBuilder()
                .width(size.width())
                .height(size.height())
                .title(
                        switch (kind) {
                            case LOSS -> "Loss, nats per byte";
                            case SPEED -> "Tokens per second, thousands";
                            case TIME -> "Time of a step, ms";
                        })
                .xAxisTitle("step")
                .build();
        style(chart, size);
        switch (kind) {
            case LOSS -> {
                line(chart, "loss", LOSS, points, Curves.Point::loss);
                List<Curves.Point> looks = points.stream()
                        .filter(point -> Double.isFinite(point.heldOutLoss()))
                        .toList();
                if (!looks.isEmpty()) {
                    XYSeries series = line(chart, "held-out text", HELD_OUT, looks, Curves.Point::heldOutLoss);
                    // A single look has no line.
                    series.setMarker(SeriesMarkers.CIRCLE);
                    series.setMarkerColor(HELD_OUT);
                    chart.getStyler().setMarkerSize(HELD_OUT_PIXELS);
                    chart.getStyler().setLegendVisible(true);
                }
            }
            case SPEED -> {
                line(chart, "tokens/s", SPEED, points, point -> point.tokensPerSecond() / 1000);
                chart.getStyler().setYAxisMin(0.0);
            }
            case TIME -> {
                // Areas hide what lies behind them: the highest comes first.
                area(chart, "optimizer", OPTIMIZER, points, Curves.Point::totalMillis);
                area(chart, "exchange", EXCHANGE, points, p -> p.computeMillis() + p.exchangeMillis());
                area(chart, "compute", COMPUTE, points, Curves.Point::computeMillis);
                chart.getStyler().setYAxisMin(0.0);
                chart.getStyler().setYAxisMax(usualMillis(points) * 1.25);
                chart.getStyler().setLegendVisible(true);
            }
        }
        chooseTicks(chart, points);
        return chart;
    }

    /** At even distances the library takes steps themselves for ticks, 0, 153, 306; so one unseen point stands off. */
    private static void chooseTicks(XYChart chart, List<Curves.Point> points) {
        double last = points.getLast().step();
        double begin =
                points.getFirst().step() < last / 10 ? 0 : points.getFirst().step();
        double[] values = chart.getSeriesMap().values().iterator().next().getYData();
        XYSeries unseen =
                chart.addSeries("unseen", new double[] {begin, last + 0.003 * (last - begin + 1)}, new double[] {
                    values[0], values[values.length - 1]
                });
        unseen.setXYSeriesRenderStyle(XYSeries.XYSeriesRenderStyle.Scatter);
        unseen.setMarker(SeriesMarkers.NONE);
        unseen.setShowInLegend(false);
    }

    /** A time that all steps but a few stay below, so that the first steps, which compile, do not flatten the rest. */
    private static double usualMillis(List<Curves.Point> points) {
        double[] sorted =
                points.stream().mapToDouble(Curves.Point::totalMillis).sorted().toArray();
        return sorted.length == 0 ? 1 : Math.max(sorted[(sorted.length - 1) * 95 / 100], 1e-3);
    }

    private static void style(XYChart chart, Size size) {
        var styler = chart.getStyler();
        Font font = new Font(Font.SANS_SERIF, Font.PLAIN, FONT_PIXELS);
        styler.setBaseFont(font);
        styler.setChartTitleFont(font.deriveFont(Font.BOLD, FONT_PIXELS + 1f));
        styler.setAxisTitleFont(font);
        styler.setAxisTickLabelsFont(font);
        styler.setLegendFont(font);
        styler.setChartFontColor(INK);
        styler.setChartBackgroundColor(Color.WHITE);
        styler.setPlotBackgroundColor(Color.WHITE);
        styler.setPlotBorderVisible(false);
        styler.setChartTitleBoxVisible(false);
        styler.setPlotGridLinesColor(GRID);
        styler.setPlotGridVerticalLinesVisible(false);
        styler.setPlotGridLinesStroke(new BasicStroke(1));
        styler.setAxisTickMarksColor(GRID);
        styler.setLegendVisible(false);
        styler.setLegendBorderColor(Color.WHITE);
        styler.setLegendPosition(Styler.LegendPosition.OutsideS);
        styler.setLegendLayout(Styler.LegendLayout.Horizontal);
        styler.setXAxisTickMarkSpacingHint(size.width() / 6);
        styler.setLegendSeriesLineLength(16);
        styler.setYAxisTickMarkSpacingHint(40);
        styler.setMarkerSize(0);
        styler.setLocale(Locale.ROOT);
    }

    private static XYSeries line(
            XYChart chart, String name, Color color, List<Curves.Point> points, ToDoubleFunction<Curves.Point> value) {
        XYSeries series = series(chart, name, points, value);
        series.setLineColor(color);
        series.setLineStyle(new BasicStroke(2));
        series.setMarker(SeriesMarkers.NONE);
        return series;
    }

    private static void area(
            XYChart chart, String name, Color color, List<Curves.Point> points, ToDoubleFunction<Curves.Point> value) {
        XYSeries series = series(chart, name, points, value);
        series.setXYSeriesRenderStyle(XYSeries.XYSeriesRenderStyle.Area);
        series.setFillColor(color);
        series.setLineColor(color);
        series.setLineStyle(new BasicStroke(2));
        series.setMarker(SeriesMarkers.NONE);
    }

    private static XYSeries series(
            XYChart chart, String name, List<Curves.Point> points, ToDoubleFunction<Curves.Point> value) {
        return chart.addSeries(
                name,
                points.stream().mapToDouble(Curves.Point::step).toArray(),
                points.stream().mapToDouble(value).toArray());
    }
}
