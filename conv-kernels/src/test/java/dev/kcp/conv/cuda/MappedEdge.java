package dev.kcp.conv.cuda;

import static dev.kcp.conv.cuda.Driver.check;

import dev.kcp.tensor.DType;
import dev.kcp.tensor.Memory;
import dev.kcp.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.CUmemAccessDesc;
import jcuda.driver.CUmemAllocationProp;
import jcuda.driver.CUmemGenericAllocationHandle;
import jcuda.driver.CUmemLocation;
import jcuda.driver.JCudaDriver;

/**
 * Device tensors that each lie alone between addresses where no memory is, at the first or the last byte of what is mapped:
 * an access beyond that edge is an error of the device.
 */
final class MappedEdge implements AutoCloseable {
    private static final int PINNED = 1;
    private static final int ON_DEVICE = 1;
    private static final int READ_AND_WRITE = 3;

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
        CUmemLocation location = new CUmemLocation(ON_DEVICE, stream.device().ordinal());
        CUmemAllocationProp properties = new CUmemAllocationProp();
        properties.type = PINNED;
        properties.location = location;
        long[] granule = new long[1];
        check("cuMemGetAllocationGranularity", JCudaDriver.cuMemGetAllocationGranularity(granule, properties, 0));
        long mappedBytes = (Math.max(bytes, 1) + granule[0] - 1) / granule[0] * granule[0];
        long reservedBytes = mappedBytes + 2 * granule[0];
        CUdeviceptr reserved = new CUdeviceptr();
        check("cuMemAddressReserve", JCudaDriver.cuMemAddressReserve(reserved, reservedBytes, 0, new CUdeviceptr(), 0));
        CUmemGenericAllocationHandle handle = new CUmemGenericAllocationHandle();
        check("cuMemCreate", JCudaDriver.cuMemCreate(handle, mappedBytes, properties, 0));
        CUdeviceptr mapped = reserved.withByteOffset(granule[0]);
        check("cuMemMap", JCudaDriver.cuMemMap(mapped, mappedBytes, 0, handle, 0));
        check(
                "cuMemSetAccess",
                JCudaDriver.cuMemSetAccess(
                        mapped, mappedBytes, new CUmemAccessDesc[] {new CUmemAccessDesc(location, READ_AND_WRITE)}, 1));
        check("cuMemRelease", JCudaDriver.cuMemRelease(handle));
        long first = Handles.addressOf(reserved);
        Block block = new Block(first, reservedBytes, first + granule[0], mappedBytes);
        blocks.add(block);
        return block;
    }

    @Override
    public void close() {
        stream.synchronize();
        for (Block block : blocks) {
            check("cuMemUnmap", JCudaDriver.cuMemUnmap(Handles.device(block.mapped()), block.mappedBytes()));
            check(
                    "cuMemAddressFree",
                    JCudaDriver.cuMemAddressFree(Handles.device(block.reserved()), block.reservedBytes()));
        }
        blocks.clear();
    }
}
