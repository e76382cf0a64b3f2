package dev.kcp.comm;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import java.io.IOException;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/** Communicators whose ranks are processes, for host memory. */
public final class TcpCommunicator {
    private TcpCommunicator() {}

    /**
     * Joins the job's communicator of all ranks; returns once every rank is connected to every other. A job does this
     * once; see the other form for more communicators.
     *
     * @param deadline bound of the rendezvous as a whole, and later of every wait
     * @throws KcpException RENDEZVOUS if ranks are missing in time, naming all of them, or if this process is refused
     */
    public static Communicator join(RankInfo me, Duration deadline) {
        return join(me, GroupCommunicator.WORLD, deadline, deadline);
    }

    /**
     * As {@link #join(RankInfo, Duration)}, for several communicators of one job, and with a longer time for processes
     * to start than for ranks to answer.
     *
     * @param name equal on all ranks, and used once per job. Without a launcher's store, rank 0 hosts one for the time
     *     of this call, so ranks join one communicator after the other
     * @param meetDeadline bound of the rendezvous as a whole
     * @param deadline bound of every later wait
     */
    @SuppressWarnings("try") // the store is only to be there while ranks meet
    public static Communicator join(RankInfo me, String name, Duration meetDeadline, Duration deadline) {
        Deadline until = Deadline.in(Deadline.check(meetDeadline));
        int[] all = IntStream.range(0, me.worldSize()).toArray();
        Mesh mesh = new Mesh(me.rank(), me.worldSize(), "tcp", deadline);
        if (me.worldSize() == 1) {
            mesh.attach(new LocalWire(0, List.of(mesh)));
            return mesh.open(GroupCommunicator.WORLD, all);
        }
        try (MeetingPlace place = MeetingPlace.open(me, name, until);
                TcpPeers peers = TcpPeers.listen(place.me(), name, place.store().localAddress(), until)) {
            Map<Integer, SocketChannel> channels =
                    peers.connect(Rendezvous.meet(place.store(), name, place.me(), peers.listening(), until));
            TcpWire wire = new TcpWire(mesh, channels);
            peers.handOver();
            mesh.attach(wire);
            wire.start();
            Communicator world = mesh.open(GroupCommunicator.WORLD, all);
            // Only now has every rank read what it needs from a store that rank 0 hosts.
            try (Communicator joining = mesh.open("join", all)) {
                joining.barrier("join " + name);
            } catch (RuntimeException e) {
                world.close();
                throw e;
            }
            return world;
        } catch (IOException e) {
            throw new KcpException(
                    Code.RENDEZVOUS,
                    "cannot connect the ranks (" + Sockets.reason(e) + "): rank=" + me.rank() + " communicator=" + name,
                    e);
        }
    }
}
