package dev.kcp.comm;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/** A collective call in a flight recording, from its begin to the end of its wait. */
@Name("dev.kcp.Exchange")
@Label("Exchange")
@Category("kcp")
@StackTrace(false)
final class ExchangeEvent extends Event {
    @Label("Group")
    String group;

    @Label("Call")
    long call;

    @Label("Kind")
    String kind;

    @Label("Label")
    String label;

    @Label("Sent bytes")
    @DataAmount
    long sentBytes;

    @Label("Peers")
    String peers;
}
