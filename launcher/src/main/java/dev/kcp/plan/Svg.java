package dev.kcp.plan;

import java.util.Locale;

/** SVG text of a picture of fixed width; lengths are its pixels. */
final class Svg {
    /** So narrow that its text can still be read when a telephone scales it down. */
    static final double WIDTH = 480;

    /** Of one character, as a share of the font's size; wider than most fonts are. */
    private static final double CHARACTER_WIDTH = 0.62;

    private final StringBuilder body = new StringBuilder();

    /** Width that a text takes at most. */
    static double textWidth(String text, double size) {
        return text.length() * size * CHARACTER_WIDTH;
    }

    void rect(double x, double y, double width, double height, String attributes) {
        add("<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" %s/>", x, y, width, height, attributes);
    }

    void path(String d, String attributes) {
        add("<path d=\"%s\" %s/>", d, attributes);
    }

    void text(double x, double y, double size, String text, String attributes) {
        add("<text x=\"%.2f\" y=\"%.2f\" font-size=\"%.1f\" %s>%s</text>", x, y, size, attributes, escape(text));
    }

    void circle(double x, double y, double radius, String attributes) {
        add("<circle cx=\"%.2f\" cy=\"%.2f\" r=\"%.2f\" %s/>", x, y, radius, attributes);
    }

    private void add(String format, Object... values) {
        body.append("  ").append(String.format(Locale.ROOT, format, values)).append('\n');
    }

    private static String escape(String text) {
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;");
    }

    /** The whole file, on a white ground. */
    String finish(double height, String title, String definitions) {
        return String.format(Locale.ROOT, """
                <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %1$.0f %2$.0f" width="%1$.0f" height="%2$.0f" \
                style="max-width:100%%;height:auto" font-family="DejaVu Sans, Verdana, sans-serif" role="img">
                  <title>%3$s</title>
                %4$s  <rect x="0" y="0" width="%1$.0f" height="%2$.0f" fill="#ffffff"/>
                %5$s</svg>
                """, WIDTH, height, escape(title), definitions, body);
    }
}
