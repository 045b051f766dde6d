/* Reading a vocabulary: tokens spelled in letters, their numbers, and merges. All formats have them alike. */
#ifndef GODWIT_KERNELS_DATA_BPE_VOCABULARY_H
#define GODWIT_KERNELS_DATA_BPE_VOCABULARY_H

#include "kernels/data/bpe/inside.h"

#include <jansson.h>

enum { GW_BPE_LETTERS = 512, GW_BPE_TOKEN_MOST = 4096 };

typedef struct gw_bpe_reading {
    gw_bpe *bpe;
    json_t *file;                    /* the whole of a file that was read; owned by the caller */
    json_t *numbers;                 /* of tokens, spelled in letters; borrowed */
    char letter[GW_BPE_BYTES][3];    /* the letter of each byte, in UTF-8 */
    int16_t byte_of[GW_BPE_LETTERS]; /* the byte of each letter; -1: none */
} gw_bpe_reading;

/* Begins to read into an empty vocabulary. */
void gw_bpe_reading_begin(gw_bpe_reading *reading, gw_bpe *bpe);

/* Reads the object {token: number}, which must stay valid while merges are read. A token whose characters are
 * not all letters of bytes is one that no merge makes; it stands for what it is spelled. Fails with
 * GW_E_INVALID. */
bool gw_bpe_read_tokens(gw_bpe_reading *reading, json_t *numbers, gw_err *err);

/* The number of a token; GW_BPE_NO_TOKEN where none is spelled so. */
int64_t gw_bpe_number_of(const gw_bpe_reading *reading, const char *letters, size_t length);

/* Adds a merge, after those of lower rank: both tokens, and the one that they become, must be there. Fails
 * with GW_E_INVALID or GW_E_LIMIT. */
bool gw_bpe_read_merge(gw_bpe_reading *reading, const char *left, size_t left_length, const char *right,
                       size_t right_length, gw_err *err);

/* Adds a token that stands for the bytes of `text`, unless the number is that of a token already. Fails with
 * GW_E_LIMIT or GW_E_NOMEM. */
bool gw_bpe_set_token(gw_bpe *bpe, uint32_t number, const char *text, size_t length, gw_err *err);

#endif
