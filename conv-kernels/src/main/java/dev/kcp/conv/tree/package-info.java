/** The tree by which sums are made: nodes, the stack that combines siblings, and the additions themselves. */
package dev.kcp.conv.tree;
