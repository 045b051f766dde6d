/* The commit that this program was built of. It is no part of the build id, and so of no compute class:
 * two builds of which only the commit differs are one build to each other. */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_COMMIT_H
#define GODWIT_TOOLS_GODWIT_TEXT_COMMIT_H

/* Writes the first 12 digits of the commit in hexadecimal, with "-dirty" behind them where the tree had
 * changes, or "unknown". */
enum { GW_COMMIT_TEXT = 65 };
void gw_commit(char text[GW_COMMIT_TEXT]);

#endif
