package dev.kcp.comm;

/** A statement that this rank made and that all ranks of the group must make alike; see {@link Communicator#agree}. */
public interface PendingAgreement {
    /**
     * Waits, under the communicator's deadline, until every rank has made the statement; at once where that is known. It
     * is part of the order of calls: a rank that waits here before its call n, and one that made call n without the
     * statement, disagree. Where another thread than the one that makes the calls waits, that order is not compared.
     *
     * @throws dev.kcp.KcpException DISAGREEMENT with who said what, the same on every rank; DEADLINE or RANK_FAILED naming
     *     the ranks that said nothing
     */
    void await();
}
