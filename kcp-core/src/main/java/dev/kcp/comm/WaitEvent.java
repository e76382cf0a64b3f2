package dev.kcp.comm;

import jdk.jfr.Category;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/** The time that a rank's own thread waited for a collective call, in a flight recording. */
@Name("dev.kcp.Wait")
@Label("Wait")
@Category("kcp")
@StackTrace(false)
final class WaitEvent extends Event {
    @Label("Call")
    long call;

    @Label("Label")
    String label;
}
