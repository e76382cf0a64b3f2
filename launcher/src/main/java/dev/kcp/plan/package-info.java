/** What a partition costs, as text, JSON and a drawing. */
package dev.kcp.plan;
