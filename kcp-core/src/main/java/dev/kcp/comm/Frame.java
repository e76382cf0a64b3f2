package dev.kcp.comm;

/** What ranks tell each other. A message is a header, then payload in runs of any length up to the header's bytes. */
sealed interface Frame {
    /**
     * The sender's record of a call: goes to every peer of the group, with the rows or without.
     *
     * @param group name of the group
     * @param call the call's number in the group
     * @param phase 0, or a later round of the same collective
     * @param record what the sender believes the call to be
     * @param bytes payload that follows for this peer
     */
    record Header(String group, long call, int phase, Call record, long bytes) implements Frame {}

    /** The sender's group ended, and this is the first reason that the sender knew. */
    record Abort(Failure failure) implements Frame {}

    /** What the sender stated, which all ranks of the group must state alike. */
    record Statement(String group, long number, String text) implements Frame {}

    /** The sender closed one group. */
    record Leave(String group) implements Frame {}

    /** The sender closed all of its groups and will send nothing more. */
    record Bye() implements Frame {}

    /** The answer to {@link Bye}: everything before it was read. */
    record ByeSeen() implements Frame {}
}
