package dev.kcp.comm;

/**
 * An exchange under way. Its buffers belong to the communicator until {@link #await()} has returned or thrown, or the
 * communicator is closed: who cannot await must close before memory is freed, which ends the group.
 */
public interface PendingExchange {
    /**
     * Waits until everything was received and every own buffer may be reused, under the communicator's deadline.
     *
     * @throws dev.kcp.KcpException with the rank, call number and label, and what each side expected
     */
    void await();
}
