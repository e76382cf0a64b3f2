package dev.kcp.conv.cuda;

import static dev.kcp.cuda.Driver.check;

import dev.kcp.cuda.CudaStream;
import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.cuda.cudart.CUmemAccessDesc_v1;
import org.bytedeco.cuda.cudart.CUmemAllocationProp_v1;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.SizeTPointer;

/**
 * Device tensors that each lie alone between addresses where no memory is, at the first or the last byte of what is mapped:
 * an access beyond that edge is an error of the device.
 */
final class MappedEdge implements AutoCloseable {
    /** Reserved addresses, [nothing | memory | nothing]; the outer parts are as large as the inner one's granule. */
    private record Block(long reserved, long reservedBytes, long mapped, long mappedBytes) {}

    private final CudaStream stream;
    private final boolean atEnd;
    private final List<Block> blocks = new ArrayList<>();

    MappedEdge(CudaStream stream, boolean atEnd) {
        this.stream = stream;
        this.atEnd = atEnd;
    }

    Tensor room(DType dtype, long... shape) {
        long bytes = dtype.bytes();
        for (long extent : shape) {
            bytes *= extent;
        }
        Block block = map(bytes);
        long address = atEnd ? block.mapped() + block.mappedBytes() - bytes : block.mapped();
        return Tensor.over(Memory.borrow(stream.device().device(), address, bytes), dtype, shape);
    }

    Tensor copyOf(Tensor placed) {
        Tensor copy = room(placed.dtype(), placed.shape());
        stream.copy(
                placed.address(),
                copy.address(),
                placed.elements() * placed.dtype().bytes());
        return copy;
    }

    private Block map(long bytes) {
        stream.device().makeCurrent();
        try (CUmemAllocationProp_v1 properties = zeroed(new CUmemAllocationProp_v1());
                CUmemAccessDesc_v1 access = zeroed(new CUmemAccessDesc_v1());
                SizeTPointer granules = new SizeTPointer(1)) {
            int ordinal = stream.device().ordinal();
            properties.type(cudart.CU_MEM_ALLOCATION_TYPE_PINNED);
            properties.location().type(cudart.CU_MEM_LOCATION_TYPE_DEVICE);
            properties.location().id(ordinal);
            access.location().type(cudart.CU_MEM_LOCATION_TYPE_DEVICE);
            access.location().id(ordinal);
            access.flags(cudart.CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
            check(
                    "cuMemGetAllocationGranularity",
                    cudart.cuMemGetAllocationGranularity(
                            granules, properties, cudart.CU_MEM_ALLOC_GRANULARITY_MINIMUM));
            long granule = granules.get();
            long mappedBytes = (Math.max(bytes, 1) + granule - 1) / granule * granule;
            long reservedBytes = mappedBytes + 2 * granule;
            long[] reserved = new long[1];
            check("cuMemAddressReserve", cudart.cuMemAddressReserve(reserved, reservedBytes, 0, 0, 0));
            long mapped = reserved[0] + granule;
            long[] handle = new long[1];
            check("cuMemCreate", cudart.cuMemCreate(handle, mappedBytes, properties, 0));
            check("cuMemMap", cudart.cuMemMap(mapped, mappedBytes, 0, handle[0], 0));
            check("cuMemSetAccess", cudart.cuMemSetAccess(mapped, mappedBytes, access, 1));
            check("cuMemRelease", cudart.cuMemRelease(handle[0]));
            Block block = new Block(reserved[0], reservedBytes, mapped, mappedBytes);
            blocks.add(block);
            return block;
        }
    }

    private static <T extends Pointer> T zeroed(T struct) {
        Pointer.memset(struct, 0, struct.sizeof());
        return struct;
    }

    @Override
    public void close() {
        stream.synchronize();
        for (Block block : blocks) {
            check("cuMemUnmap", cudart.cuMemUnmap(block.mapped(), block.mappedBytes()));
            check("cuMemAddressFree", cudart.cuMemAddressFree(block.reserved(), block.reservedBytes()));
        }
        blocks.clear();
    }
}
