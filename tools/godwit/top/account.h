/* One peer of `godwit top` in words: what it does, or since when and why it does not, what to do, and its figures.
 * Pure; one thread. */
#ifndef GODWIT_TOOLS_GODWIT_TOP_ACCOUNT_H
#define GODWIT_TOOLS_GODWIT_TOP_ACCOUNT_H

#include "tools/godwit/top/frame.h"

/* Draws the account of the peer of this row of the answer "peers", with its card (NULL: not known), into so many rows
 * from `row` on. */
void gw_top_account(const gw_top_frame *frame, const json_t *peer, const json_t *card, gw_canvas *canvas,
                    int row, int height);

#endif
