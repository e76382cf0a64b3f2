package dev.kcp.nccl;

import dev.kcp.KcpException;
import dev.kcp.KcpException.Code;
import dev.kcp.comm.Communicator;
import dev.kcp.cuda.CudaDevice;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What ranks tell each other before they make an NCCL communicator, which would hang or fail late where they differ. */
final class Peers {
    private Peers() {}

    /**
     * Compares versions and GPUs, and hands on rank 0's unique id. A collective call.
     *
     * @return the unique id; empty in a group of one rank
     */
    static byte[] meet(Communicator control, CudaDevice device, Path library) {
        if (control.size() == 1) {
            return new byte[0];
        }
        byte[] uniqueId = control.rank() == 0 ? Nccl.uniqueId() : new byte[Nccl.UNIQUE_ID_BYTES];
        byte[] text = (Nccl.version() + "\n" + device.uuid() + "\n" + library).getBytes(StandardCharsets.UTF_8);
        byte[] mine = ByteBuffer.allocate(uniqueId.length + text.length)
                .put(uniqueId)
                .put(text)
                .array();
        List<byte[]> all = control.allGather("nccl peers", mine);
        compare(all);
        byte[] first = new byte[Nccl.UNIQUE_ID_BYTES];
        System.arraycopy(all.getFirst(), 0, first, 0, first.length);
        return first;
    }

    private static void compare(List<byte[]> all) {
        Map<String, Integer> byGpu = new HashMap<>();
        String[] first = null;
        for (int rank = 0; rank < all.size(); rank++) {
            byte[] one = all.get(rank);
            String[] words = new String(
                            one, Nccl.UNIQUE_ID_BYTES, one.length - Nccl.UNIQUE_ID_BYTES, StandardCharsets.UTF_8)
                    .split("\n");
            first = rank == 0 ? words : first;
            if (!words[0].equals(first[0])) {
                throw new KcpException(
                        Code.DISAGREEMENT,
                        "ranks loaded different versions of NCCL: rank 0 version=" + first[0] + " library=" + first[2]
                                + "; rank " + rank + " version=" + words[0] + " library=" + words[2]);
            }
            Integer other = byGpu.putIfAbsent(words[1], rank);
            if (other != null) {
                throw new KcpException(
                        Code.MISSING_DEVICE,
                        "every rank needs a GPU of its own: ranks=" + other + "," + rank + " gpu=" + words[1]);
            }
        }
    }
}
