/** The one exception that all modules throw for what is neither a wrong argument nor a misused lifetime. */
package dev.kcp;
