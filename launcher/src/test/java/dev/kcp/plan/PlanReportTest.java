package dev.kcp.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.kcp.core.CuSeqlens;
import dev.kcp.core.Layout;
import dev.kcp.core.Partition;
import dev.kcp.core.PartitionJson;
import java.io.StringReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.w3c.dom.Document;
import org.w3c.dom.Element;
import org.w3c.dom.NodeList;
import org.xml.sax.InputSource;

class PlanReportTest {
    private static PlanReport plan(Layout layout, int world, int align, int... lengths) {
        return PlanReport.of(
                Partition.of(layout, CuSeqlens.ofLengths(lengths), world, align), layout.label(), align, 64);
    }

    private static Document parse(String svg) throws Exception {
        return DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(new InputSource(new StringReader(svg)));
    }

    private static List<Element> all(Document svg, String tag) {
        List<Element> elements = new ArrayList<>();
        NodeList nodes = svg.getElementsByTagName(tag);
        for (int i = 0; i < nodes.getLength(); i++) {
            elements.add((Element) nodes.item(i));
        }
        return elements;
    }

    private static double number(Element element, String attribute) {
        return Double.parseDouble(element.getAttribute(attribute));
    }

    /** 100 and 156 tokens cut at 128: three rows of 64 BF16 channels forward, three of FP32 back. */
    @Test
    void documentCutOnce() {
        PlanReport report = plan(Layout.CONTIGUOUS, 2, 64, 100, 156);
        assertThat(report.ranks())
                .containsExactly(
                        new PlanReport.RankTotals(
                                0,
                                128,
                                2,
                                3 * 64 * 2,
                                0,
                                0,
                                report.ranks().get(0).treeBytes()),
                        new PlanReport.RankTotals(
                                1,
                                128,
                                1,
                                0,
                                3 * 64 * 4,
                                3 * 64 * 2,
                                report.ranks().get(1).treeBytes()));
        assertThat(report.edges())
                .containsExactly(
                        new PlanReport.EdgeTotals(0, 1, 3, 384, 0, 0), new PlanReport.EdgeTotals(1, 0, 0, 0, 3, 768));
        assertThat(report.exchangeBytes()).isEqualTo(384 + 768);
        assertThat(report.imbalance()).isEqualTo(1);
        assertThat(PlanText.write(report, false)).contains("0[0,28) 1[28,156)").contains("tree-exact: yes");
    }

    @Test
    void imbalanceIsMostOverMean() {
        assertThat(plan(Layout.CONTIGUOUS, 4, 64, 100).imbalance()).isEqualTo(64 * 4 / 100.0);
        assertThat(plan(Layout.CONTIGUOUS, 3, 1).imbalance()).isEqualTo(1);
    }

    @Test
    void edgesOfARankSumToWhatItSends() {
        Random random = new Random(5);
        for (int trial = 0; trial < 30; trial++) {
            int[] lengths = random.ints(1 + random.nextInt(8), 0, 12).toArray();
            PlanReport report = plan(Layout.values()[trial % 3], 1 + random.nextInt(6), 1 + random.nextInt(3), lengths);
            for (PlanReport.RankTotals rank : report.ranks()) {
                long sent = report.edges().stream()
                        .filter(edge -> edge.from() == rank.rank() && !edge.isLocal())
                        .mapToLong(edge -> edge.forwardBytes() + edge.backwardBytes())
                        .sum();
                assertThat(sent).isEqualTo(rank.exchangeBytes());
            }
        }
    }

    @Test
    void jsonHoldsThePartitionAndEveryRow() throws Exception {
        PlanReport report = plan(Layout.ZIGZAG, 3, 1, 5, 0, 1, 20);
        String text = PlanJson.write(report);
        assertThat(PartitionJson.read(text)).isEqualTo(report.partition());
        JsonNode json = new ObjectMapper().readTree(text);
        assertThat(json.path("exchange_bytes").asLong()).isEqualTo(report.exchangeBytes());
        int rows = 0;
        for (JsonNode edge : json.path("forward")) {
            assertThat(edge.path("tokens")).hasSize(edge.path("rows").asInt());
            rows += edge.path("rows").asInt();
        }
        assertThat(rows)
                .isEqualTo(report.edges().stream()
                        .mapToInt(PlanReport.EdgeTotals::forwardRows)
                        .sum());
    }

    /** Documents that differ only in the middle of a long list of fragments are not one line. */
    @Test
    void alikeDocumentsShareALine() {
        int[] lengths = new int[3000];
        Arrays.fill(lengths, 300);
        assertThat(PlanText.write(plan(Layout.ZIGZAG_PER_DOCUMENT, 8, 1, lengths), false))
                .contains("0 to 2999 ")
                .hasLineCount(35);
        lengths[7] = 301;
        assertThat(PlanText.write(plan(Layout.ZIGZAG_PER_DOCUMENT, 8, 1, lengths), false))
                .contains("\n0 to 6 ", "\n7 ", "\n8 to 2999 ");
    }

    @Test
    void longTablesAreCutUnlessAskedFor() {
        int[] lengths = new Random(1).ints(500, 1, 900).toArray();
        PlanReport report = plan(Layout.CONTIGUOUS, 100, 1, lengths);
        assertThat(PlanText.write(report, false).lines().count()).isLessThan(80);
        assertThat(PlanText.write(report, true).lines().count()).isGreaterThan(500 + 100);
    }

    /** Nothing reaches outside the picture, and no fragment's label outside its fragment. */
    @ParameterizedTest
    @CsvSource({
        "CONTIGUOUS, 2, 64, 2, 300",
        "ZIGZAG, 4, 1, 4, 100",
        "ZIGZAG, 5, 1, 30, 3",
        "ZIGZAG_PER_DOCUMENT, 8, 1, 3000, 300",
        "CONTIGUOUS, 128, 1, 1000, 2000",
        "ZIGZAG, 1000, 1, 5, 40",
        "CONTIGUOUS, 3, 1, 0, 0",
        "CONTIGUOUS, 3, 1, 5, 0"
    })
    void pictureStaysInItsFrame(Layout layout, int world, int align, int documents, int length) throws Exception {
        int[] lengths = new int[documents];
        Arrays.fill(lengths, length);
        String text = PlanSvg.write(plan(layout, world, align, lengths));
        assertThat(text.length()).isLessThan(400_000);
        Document svg = parse(text);
        double height = number(svg.getDocumentElement(), "height");
        List<Element> rects = all(svg, "rect");
        assertThat(rects).isNotEmpty();
        for (Element rect : rects) {
            assertThat(number(rect, "x")).isNotNegative();
            assertThat(number(rect, "x") + number(rect, "width")).isLessThanOrEqualTo(Svg.WIDTH);
            assertThat(number(rect, "y") + number(rect, "height")).isLessThanOrEqualTo(height);
        }
        List<double[]> boxes = new ArrayList<>();
        for (Element label : all(svg, "text")) {
            double width = Svg.textWidth(label.getTextContent(), number(label, "font-size"));
            double x = number(label, "x");
            double left =
                    switch (label.getAttribute("text-anchor")) {
                        case "middle" -> x - width / 2;
                        case "end" -> x - width;
                        default -> x;
                    };
            double y = number(label, "y");
            assertThat(left).as(label.getTextContent()).isNotNegative();
            assertThat(left + width).as(label.getTextContent()).isLessThanOrEqualTo(Svg.WIDTH);
            assertThat(y).isLessThan(height);
            double[] box = {left, y - number(label, "font-size") * 0.75, left + width, y};
            for (double[] other : boxes) {
                boolean overlaps = box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3];
                assertThat(overlaps)
                        .as(label.getTextContent() + " over another text")
                        .isFalse();
            }
            boxes.add(box);
        }
    }

    @Test
    void channelsMustFit() {
        assertThatThrownBy(() -> PlanReport.of(
                        Partition.of(Layout.CONTIGUOUS, CuSeqlens.ofLengths(5), 1, 1), "contiguous", 1, 12))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("channels must be a multiple of 8: channels=12");
    }
}
