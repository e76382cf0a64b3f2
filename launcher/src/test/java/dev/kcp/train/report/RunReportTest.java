package dev.kcp.train.report;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.kcp.train.StepTimes;
import java.awt.image.BufferedImage;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.imageio.ImageIO;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.w3c.dom.Element;
import org.w3c.dom.NodeList;

class RunReportTest {
    @TempDir
    Path folder;

    @Test
    void pageHoldsEveryPictureTwiceAndEveryNumber() throws Exception {
        RunReport report = new RunReport(
                "run <1>",
                Map.of("Loss", "5.5 at first"),
                Map.of("Text", "a & b"),
                curves(30).points(),
                Optional.of("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"7\"/>"));
        String page = report.html();
        assertThat(page)
                .contains("<h1>run &lt;1&gt;</h1>", "5.5 at first", "a &amp; b", "How the first batch is shared out")
                .contains("median: compute 7.00 ms, exchange 2.00 ms", "optimizer 1.00 ms")
                .doesNotContain("http://", "https://", "<script");
        Matcher pictures =
                Pattern.compile("data:image/svg\\+xml;base64,([A-Za-z0-9+/=]+)").matcher(page);
        List<Element> svgs =
                pictures.results().map(found -> svg(found.group(1))).toList();
        assertThat(svgs).hasSize(3 * 2 + 1);
        assertThat(svgs.get(0).getAttribute("viewBox")).isEqualTo("0 0 370 260");
        assertThat(svgs.get(1).getAttribute("viewBox")).isEqualTo("0 0 960 300");
        // Letters are drawn as shapes; the time's chart has three areas in colors of their own.
        assertThat(colors(svgs.get(1))).contains("#0b5fa5");
        assertThat(colors(svgs.get(5))).contains("#6fa8dc", "#e07b39", "#8e7cc3");
    }

    @Test
    void runWithoutAStepHasAPageToo() {
        assertThat(new RunReport("t", Map.of(), Map.of(), List.of(), Optional.empty()).html())
                .contains("This process made no step.")
                .doesNotContain("<img");
    }

    @Test
    void plotIsAPictureOfTheKindThatItsNameSays() throws IOException {
        Path svg = folder.resolve("plot.SVG");
        Path png = folder.resolve("plot.png");
        assertThat(CurveCharts.isSvg(svg)).isTrue();
        assertThat(CurveCharts.isSvg(png)).isFalse();
        assertThat(new String(CurveCharts.picture(true, curves(3000).points()), StandardCharsets.UTF_8))
                .contains("viewBox=\"0 0 960 900\"")
                .hasSizeLessThan(3_000_000);
        BufferedImage image = ImageIO.read(
                new ByteArrayInputStream(CurveCharts.picture(false, curves(1).points())));
        assertThat(image.getWidth()).isEqualTo(2 * 960);
        assertThat(image.getHeight()).isEqualTo(2 * 900);
        assertThat(image.getRGB(1, 1)).isEqualTo(0xFFFFFFFF);
        assertThatThrownBy(() -> CurveCharts.isSvg(folder.resolve("plot.gif")))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageEndingWith("plot.gif");
    }

    @Test
    void looksAtHeldOutTextAreDrawnAndKeptWhenThinned() throws IOException {
        Curves curves = new Curves(1000);
        for (int step = 1; step <= 100; step++) {
            if (step == 50) {
                curves.onHeldOut(step, 4);
            }
            curves.onStep(step, 5, 0);
            curves.onTimes(step, new StepTimes(10_000_000, 2_000_000, 1_000_000));
        }
        assertThat(Curves.thinned(curves.points(), 4).stream().map(Curves.Point::heldOutLoss))
                .containsExactly(Double.NaN, 4.0, Double.NaN, Double.NaN);
        String heldOut = "rgb(181,65,122)";
        assertThat(CurveCharts.svg(CurveCharts.Kind.LOSS, curves.points(), CurveCharts.Size.WIDE))
                .contains(heldOut);
        assertThat(CurveCharts.svg(CurveCharts.Kind.LOSS, curves(100).points(), CurveCharts.Size.WIDE))
                .doesNotContain(heldOut);
    }

    @Test
    void longRunsAreThinnedToMeansOfNeighbours() {
        List<Curves.Point> points = curves(1000).points();
        List<Curves.Point> thin = Curves.thinned(points, 10);
        assertThat(thin).hasSize(10);
        assertThat(thin.getFirst().step()).isEqualTo(100);
        assertThat(thin.getFirst().loss())
                .isEqualTo(points.subList(0, 100).stream()
                        .mapToDouble(Curves.Point::loss)
                        .average()
                        .orElseThrow());
        assertThat(Curves.thinned(points, 1000)).isEqualTo(points);
    }

    private static Curves curves(int steps) {
        Curves curves = new Curves(1000);
        for (int step = 1; step <= steps; step++) {
            curves.onStep(step, 5.5 - 0.001 * step, 0);
            curves.onTimes(step, new StepTimes(10_000_000, 2_000_000, 1_000_000));
        }
        assertThat(curves.points().getFirst().tokensPerSecond()).isEqualTo(100_000);
        return curves;
    }

    private static Element svg(String base64) {
        try {
            DocumentBuilderFactory factory = DocumentBuilderFactory.newInstance();
            factory.setFeature("http://apache.org/xml/features/nonvalidating/load-external-dtd", false);
            return factory.newDocumentBuilder()
                    .parse(new ByteArrayInputStream(Base64.getDecoder().decode(base64)))
                    .getDocumentElement();
        } catch (Exception notXml) {
            throw new AssertionError(notXml);
        }
    }

    private static Set<String> colors(Element svg) {
        Set<String> colors = new TreeSet<>();
        NodeList all = svg.getElementsByTagName("*");
        for (int i = 0; i < all.getLength(); i++) {
            Matcher color = Pattern.compile("#[0-9a-f]{6}|rgb\\((\\d+),\\s*(\\d+),\\s*(\\d+)\\)")
                    .matcher(((Element) all.item(i)).getAttribute("style")
                            + ((Element) all.item(i)).getAttribute("fill")
                            + ((Element) all.item(i)).getAttribute("stroke"));
            while (color.find()) {
                colors.add(
                        color.group(1) == null
                                ? color.group()
                                : String.format(
                                        "#%02x%02x%02x",
                                        Integer.parseInt(color.group(1)),
                                        Integer.parseInt(color.group(2)),
                                        Integer.parseInt(color.group(3))));
            }
        }
        return colors;
    }
}
