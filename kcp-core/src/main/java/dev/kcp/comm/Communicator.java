package dev.kcp.comm;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Device;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.LongConsumer;

/**
 * Collectives of a group of ranks. Every rank makes the same calls in the same order; the communicator numbers them and
 * compares what each rank believes call n to be. Every wait has a deadline. A failure on one rank ends the group: every
 * waiting rank gets a {@link KcpException} that names the rank, the call and the reason, and every later call
 * throws the same. One communicator is used by one thread at a time; {@link #abort}, {@link #agree}, {@link
 * #recorder} and {@link #stats} by any.
 *
 * <p>What users read names ranks of the whole job, also in subgroups. A rank whose sends wait for nobody may run a few
 * dozen calls ahead of the slowest rank of the group, then it waits for that rank under the deadline. Once the group
 * has failed, memory of the failed call is the caller's again when the call has thrown.
 */
public interface Communicator extends AutoCloseable {
    /** This rank's number in the group, from 0. */
    int rank();

    /** Ranks in the group. */
    int size();

    /** Name of the transport: {@code local}, {@code tcp} or {@code nccl}. */
    String transport();

    /** Where the memory lies that segments and sums name: the host, or this rank's GPU. */
    Device device();

    /** The queue whose work exchanges follow, and that waits for them: a stream's handle, or 0 on the host. */
    default long queue() {
        return 0;
    }

    /** The communicator of the same ranks for host memory: itself, where this one is for host memory. */
    default Communicator host() {
        return this;
    }

    /**
     * Starts a grouped point-to-point exchange: sends are under way when this returns, receives end in
     * {@link PendingExchange#await()}. A rank with nothing to send or receive calls it all the same. At most one
     * exchange may be under way; awaiting it comes before the next call.
     *
     * @param call what the exchange is, equal on all ranks
     * @param sends bytes for peers
     * @param receives room for what peers send
     * @throws IllegalArgumentException if a segment names this rank or one outside the group
     */
    default PendingExchange exchange(Call call, List<Segment> sends, List<Segment> receives) {
        return exchange(call, null, sends, receives);
    }

    /**
     * As the other form, with work that needs what is received and is done when the exchange is.
     *
     * @param behind puts the work on a queue behind the transfers: on a GPU a stream's handle, when the exchange is started;
     *     on the host 0, in {@link PendingExchange#await}, where it is done at once. Null for none
     */
    PendingExchange exchange(Call call, LongConsumer behind, List<Segment> sends, List<Segment> receives);

    /**
     * Sums elements over all ranks, in place; every rank gets the same bits. Host memory is summed in rank order, so that the
     * bits are the same each time.
     *
     * @param dtype FP32 or FP64
     * @param address first element, in the memory of the communicator's device
     * @throws IllegalArgumentException if the type is another one, or there are fewer elements than none
     */
    void allReduce(String label, DType dtype, long address, long elements);

    /**
     * Gathers every rank's bytes, which may differ in length.
     *
     * @return one array per rank, in rank order
     */
    List<byte[]> allGather(String label, byte[] mine);

    /** Returns once every rank has called it. */
    void barrier(String label);

    /**
     * Splits the group: ranks with the same color form a new group, ordered by key, then by rank here. The new
     * communicator is closed by its caller; it shares this one's connections, so that failures of either end both.
     */
    Communicator split(int color, int key);

    /**
     * States something that all ranks of the group state alike, and returns at once: a control message, not a numbered
     * call, so that any thread may send it while another one exchanges. Ranks make their statements in the same order.
     *
     * @param what what kind of thing it is, for texts
     * @param statement equal on all ranks, at most a few hundred characters
     */
    PendingAgreement agree(String what, String statement);

    /**
     * Ranks of the job, members of this group, that have not made this rank's latest call as far as is known here: whom
     * others wait for. Empty where calls are not told to all.
     */
    default List<Integer> lateRanks() {
        return List.of();
    }

    /** The latest calls of this rank, for reports of what ranks did before they hung or failed. */
    CallRecorder recorder();

    /** What this communicator did so far on this rank: calls and payload bytes sent, by kind. */
    CommunicatorStats stats();

    /**
     * Ends the group because of a failure on this rank; peers are told the reason. The first reason wins, later calls
     * change nothing.
     */
    default void abort(String reason) {
        abort(Code.RANK_FAILED, "rank " + worldRank() + " failed: " + reason);
    }

    /** As the other form, with what kind of failure it is and the whole text that every rank throws. */
    void abort(Code code, String message);

    /**
     * Looks whether the group has failed.
     *
     * @throws KcpException the failure, the same on every rank
     */
    void checkAlive();

    /** This rank's number in the job. */
    int worldRank();

    /**
     * Calls the listener once when the group fails, at once if it has, on whichever thread learns of it first.
     *
     * @param listener returns soon and calls nothing of this communicator
     */
    void onFailure(Consumer<KcpException> listener);

    /** Leaves the group. Closing twice is harmless; it never waits longer than the deadline. */
    @Override
    void close();
}
