package dev.kcp.train;

/**
 * Where a run was found to differ.
 *
 * @param order place in the step's program, the same number for the same call on every rank
 * @param token packed token, or 0
 * @param text in name=value pairs
 */
record Difference(long order, int token, String text) {
    /** The batch, where a step has several. */
    static String where(int batch, int microSteps) {
        return microSteps == 1 ? "" : "microStep=" + batch + " ";
    }

    /** An element of a parameter's gradient. */
    static String gradient(Parameter parameter, int element) {
        String name = parameter.name();
        int dot = name.startsWith("layer") ? name.indexOf('.') : -1;
        String layer = dot < 0 ? "" : "layer=" + name.substring("layer".length(), dot) + " ";
        String tensor = layer + "tensor=gradient of " + name.substring(dot + 1);
        int row = element / parameter.columns();
        int column = element % parameter.columns();
        if (parameter.columns() == ModelShape.TAPS) {
            return tensor + " channel=" + row + " tap=" + column;
        }
        return tensor + (parameter.rows() == 1 ? "" : " row=" + row) + " channel=" + column;
    }

    String encoded() {
        return order + " " + token + " " + text;
    }

    static Difference decoded(String encoded) {
        String[] parts = encoded.split(" ", 3);
        return new Difference(Long.parseLong(parts[0]), Integer.parseInt(parts[1]), parts[2]);
    }
}
