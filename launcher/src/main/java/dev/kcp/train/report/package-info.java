/** Curves of a training run as pictures, and its report as one page. */
package dev.kcp.train.report;
