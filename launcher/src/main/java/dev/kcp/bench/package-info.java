/** What {@code kcp bench} times, against the floor of the same run, and how it is shown. */
package dev.kcp.bench;
