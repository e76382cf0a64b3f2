/**
 * The command {@code kcp}: one class per subcommand, and the agent that starts ranks, watches them, and says why a job
 * failed.
 */
package dev.kcp.launcher;
