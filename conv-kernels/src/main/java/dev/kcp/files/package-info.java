/** How files that a user names are written. */
package dev.kcp.files;
