/**
 * The trainer behind {@code kcp train}: a byte-level language model whose tokens are sharded over ranks, its data and
 * its optimizer.
 */
package dev.kcp.train;
