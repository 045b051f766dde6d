/* Reading of a vocabulary: tokens spelled in letters, their numbers, and merges, which all formats have in
 * common. */
#ifndef GODWIT_KERNELS_DATA_BPE_VOCABULARY_H
#define GODWIT_KERNELS_DATA_BPE_VOCABULARY_H

#include "kernels/data/bpe/inside.h"

#include <jansson.h>

enum { GW_BPE_LETTERS = 512, GW_BPE_TOKEN_MOST = 4096 };

typedef struct gw_bpe_reading {
    gw_bpe *bpe;
    json_t *file; /* the JSON file that is read; owned by the caller */
    /* the object {token: number}, with tokens spelled in letters; part of the file */
    json_t *numbers;
    char letter[GW_BPE_BYTES][3];    /* the letter of each byte, in UTF-8 */
    int16_t byte_of[GW_BPE_LETTERS]; /* the byte of each letter; -1: none */
} gw_bpe_reading;

/* Prepares the reading of an empty vocabulary. */
void gw_bpe_reading_begin(gw_bpe_reading *reading, gw_bpe *bpe);

/* Reads the object {token: number}, which must stay valid while merges are read. No merge makes a token with
 * characters that are no letters of bytes; such a token stands for its spelling. Fails with GW_E_INVALID. */
bool gw_bpe_read_tokens(gw_bpe_reading *reading, json_t *numbers, gw_err *err);

/* The number of the token with this spelling; GW_BPE_NO_TOKEN where there is none. */
int64_t gw_bpe_number_of(const gw_bpe_reading *reading, const char *letters, size_t length);

/* Adds a merge, after those of lower rank. The vocabulary must have both tokens and the one that they become.
 * Fails with GW_E_INVALID or GW_E_LIMIT. */
bool gw_bpe_read_merge(gw_bpe_reading *reading, const char *left, size_t left_length, const char *right,
                       size_t right_length, gw_err *err);

/* Adds a token that stands for the bytes of `text`, unless a token has the number already. Fails with
 * GW_E_LIMIT or GW_E_NOMEM. */
bool gw_bpe_set_token(gw_bpe *bpe, uint32_t number, const char *text, size_t length, gw_err *err);

#endif
