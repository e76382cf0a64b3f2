package dev.kcp.launcher;

/** How the ranks of a command talk, named as on the command line. */
enum Transport {
    /** Threads of one process. */
    LOCAL,
    /** Processes, by sockets. */
    TCP,
    /** Processes on GPUs of their own. */
    NCCL
}
