package dev.kcp.launcher;

import java.time.Duration;
import java.util.List;
import java.util.Locale;

/**
 * Which of the launcher's limits ended a job.
 *
 * @param limit what the user set
 * @param inside ranks that were inside a collective call while none was completed; null where the timeout passed
 */
record Overdue(Duration limit, List<Integer> inside) {
    Overdue {
        inside = inside == null ? null : List.copyOf(inside);
    }

    static Overdue timeout(Duration limit) {
        return new Overdue(limit, null);
    }

    static Overdue hang(Duration limit, List<Integer> inside) {
        return new Overdue(limit, inside);
    }

    boolean isHang() {
        return inside != null;
    }

    String text() {
        String time = String.format(Locale.ROOT, "%.1f s", limit.toMillis() / 1e3);
        if (!isHang()) {
            return "the job passed its timeout of " + time + " and was ended";
        }
        return "the job hung and was ended: no collective call was completed for " + time + ", with "
                + (inside.size() == 1 ? "rank " : "ranks ") + FailureReport.listed(inside) + " inside one";
    }
}
