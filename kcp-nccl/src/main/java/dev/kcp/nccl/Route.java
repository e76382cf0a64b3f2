package dev.kcp.nccl;

import java.util.Locale;
import java.util.Map;

/** How rows travel between GPUs; results have the same bits either way. */
public enum Route {
    /** Straight into the peer's memory where NVLink connects the two and the rows are few, else by NCCL. */
    DIRECT,
    /** By NCCL always. */
    COLLECTIVE;

    private static final String VARIABLE = "KCP_ROUTE";

    /**
     * What the user asks for by {@code KCP_ROUTE}; direct where nothing is said.
     *
     * @throws IllegalArgumentException if it is neither {@code direct} nor {@code collective}
     */
    public static Route from(Map<String, String> environment) {
        String name = environment.getOrDefault(VARIABLE, "direct");
        return switch (name.toLowerCase(Locale.ROOT)) {
            case "direct" -> DIRECT;
            case "collective" -> COLLECTIVE;
            default ->
                throw new IllegalArgumentException(
                        "rows travel by the route direct or collective: " + VARIABLE + "=" + name);
        };
    }
}
