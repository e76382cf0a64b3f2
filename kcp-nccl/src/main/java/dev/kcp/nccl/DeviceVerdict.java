package dev.kcp.nccl;

import dev.kcp.tensor.HostMemory;
import dev.kcp.tensor.Memory;
import java.lang.foreign.ValueLayout;
import java.util.Optional;
import java.util.function.IntFunction;

/**
 * What a device said of the first message that was wrong, by {@code complain} in verdict.cuh. The host looks at it whenever
 * it likes; it waits for nothing.
 */
final class DeviceVerdict implements AutoCloseable {
    /** Words that the device writes, of 8 bytes each. */
    enum Word {
        PEER_PLUS_1,
        EXPECTED_NUMBER,
        EXPECTED_DIGEST,
        NUMBER,
        DIGEST,
        LOCK
    }

    static final int BYTES = Word.values().length * Long.BYTES;

    private final Memory memory;

    /** @param memory that the device reads and writes, at least {@link #BYTES}; taken over and cleared */
    DeviceVerdict(Memory memory) {
        this.memory = memory;
        HostMemory.zero(memory.address(), BYTES);
    }

    /** Where the device writes it. */
    long address() {
        return memory.address();
    }

    /**
     * The text for the first wrong message; nothing while all were right.
     *
     * @param names what a peer is called, by its number
     */
    Optional<String> wrong(IntFunction<String> names) {
        long peer = (long) ValueLayout.JAVA_LONG.varHandle().getVolatile(HostMemory.ALL, at(Word.PEER_PLUS_1)) - 1;
        if (peer < 0) {
            return Optional.empty();
        }
        return Optional.of("rows from " + names.apply((int) peer) + " are not those of the call: expectedMessage="
                + get(Word.EXPECTED_NUMBER) + " expectedDigest=" + Long.toHexString(get(Word.EXPECTED_DIGEST))
                + " message=" + get(Word.NUMBER) + " digest=" + Long.toHexString(get(Word.DIGEST)));
    }

    private long get(Word word) {
        return HostMemory.ALL.get(ValueLayout.JAVA_LONG, at(word));
    }

    private long at(Word word) {
        return memory.address() + (long) word.ordinal() * Long.BYTES;
    }

    @Override
    public void close() {
        memory.close();
    }
}
