/**
 * Groups of ranks and their collectives: {@link dev.kcp.comm.Communicator}, between threads of a process and over TCP, how
 * ranks find each other, and how a group fails as one.
 */
package dev.kcp.comm;
