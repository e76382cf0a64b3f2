/** The communicator between GPUs, over NCCL, beside a control communicator for host memory. */
package dev.kcp.nccl;
