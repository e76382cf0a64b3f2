package dev.kcp.nccl;

import dev.kcp.comm.Call;
import java.util.List;

/** A number for what calls mean, the same on ranks that mean the same. */
final class CallDigest {
    private CallDigest() {}

    static long of(Call call) {
        long digest = call.planDigest() * 31 + call.kind().ordinal();
        for (char c : call.label().toCharArray()) {
            digest = digest * 1_000_003 + c;
        }
        return digest * 31 + call.channels();
    }

    static long of(List<Call> calls) {
        long digest = 1;
        for (Call call : calls) {
            digest = digest * 31 + of(call);
        }
        return digest;
    }
}
