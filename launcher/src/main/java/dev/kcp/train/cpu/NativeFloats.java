package dev.kcp.train.cpu;

import org.bytedeco.javacpp.FloatPointer;
import org.bytedeco.javacpp.Pointer;

/** A JavaCPP pointer that is moved to an address owned elsewhere; it allocates and frees nothing. */
final class NativeFloats extends FloatPointer {
    NativeFloats() {
        super((Pointer) null);
    }

    /** Points to the given address from now on. */
    NativeFloats at(long address) {
        this.address = address;
        return this;
    }
}
