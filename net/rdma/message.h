/* The messages between the two endpoints of an RDMA path (little-endian), sent over the link's encrypted
 * stream:
 *
 *    slots  1 | version u8 | 0 u16 | addressee 16 | secret 32 | count u32 |
 *             count x (address u64 | rkey u32 | slot bytes u32 | slots u32)
 *           The side that leads sends it first, then the other. With this secret the receiver may dial
 *           the sender.
 *    words  2 | 0 u8 | 0 u16 | epoch u64 | view 16 | address u64 | rkey u32 | count u32 |
 *             count x (region u32 | offset u32 | bytes u32)
 *           The sender's words, for operations of that fence. Address 0 takes the receiver's access away.
 *    want   3 | what u8 | region u8 | 0 u8 | id u64 | bytes u64 |
 *             name 32 (what 1: at most `bytes` bytes by that name), or
 *             epoch u64 | view 16 | offset u64 (what 2: `bytes` bytes of a data region)
 *           The sender requests a loan, so that it can READ this. `id` is the sender's.
 *    lent   4 | answer u8 | 0 u16 | rkey u32 | id u64 | address u64 | bytes u64
 *           The answer to `want`: the loan; or there is nothing by that name; or the receiver must use the
 *           rails.
 *    back   5 | 0 u8 | 0 u16 | id u64
 *           The sender of that `want` gives the loan back, or no longer needs the answer.
 *
 * The card says where a side is: version u8 | link layer u8 | rate u16 | network 8 | address 19. The rate is what the
 * port carries, in units of 100 Mbit a second; builds that do not tell it send 0, and those that do not know it
 * ignore it. */
#ifndef GODWIT_NET_RDMA_MESSAGE_H
#define GODWIT_NET_RDMA_MESSAGE_H

#include "net/rail/path.h"
#include "net/rdma/channel.h"
#include "net/rdma/cm.h"

typedef struct gw_rdma_slots_message {
    gw_peer_id addressee; /* the receiver's id, which the receiver's fabric does not tell it */
    uint8_t secret[GW_RDMA_SECRET];
    uint32_t count;
    gw_rdma_slots slots[GW_PATH_STREAMS];
} gw_rdma_slots_message;

typedef struct gw_rdma_words_message {
    gw_fence fence;
    uint64_t address; /* 0: the receiver has no access any more */
    uint32_t rkey, count;
    struct {
        uint32_t region, offset, bytes;
    } regions[GW_MAX_REGIONS];
} gw_rdma_words_message;

typedef enum gw_rdma_what { GW_RDMA_BY_NAME = 1, GW_RDMA_OF_REGION } gw_rdma_what;

typedef struct gw_rdma_want_message {
    gw_rdma_what what;
    uint64_t id, bytes;
    gw_hash name; /* GW_RDMA_BY_NAME */
    gw_fence fence;
    uint32_t region;
    uint64_t offset;
} gw_rdma_want_message;

typedef enum gw_rdma_answer { GW_RDMA_LENT = 1, GW_RDMA_NOTHING, GW_RDMA_BY_RAILS } gw_rdma_answer;

typedef struct gw_rdma_lent_message {
    gw_rdma_answer answer;
    uint64_t id;
    uint64_t address, bytes; /* of GW_RDMA_LENT; bytes may be 0 */
    uint32_t rkey;
} gw_rdma_lent_message;

typedef struct gw_rdma_back_message {
    uint64_t id;
} gw_rdma_back_message;

typedef struct gw_rdma_card {
    bool ethernet;
    uint8_t network[8]; /* the InfiniBand subnet prefix; zeros on Ethernet */
    gw_addr address;    /* the address to dial */
    uint32_t mbits;     /* what the port carries, in Mbit a second, down to hundreds; 0: not known */
} gw_rdma_card;

typedef enum gw_rdma_message {
    GW_RDMA_MESSAGE_BAD,
    GW_RDMA_MESSAGE_SLOTS,
    GW_RDMA_MESSAGE_WORDS,
    GW_RDMA_MESSAGE_WANT,
    GW_RDMA_MESSAGE_LENT,
    GW_RDMA_MESSAGE_BACK,
} gw_rdma_message;

typedef union gw_rdma_message_body {
    gw_rdma_slots_message slots;
    gw_rdma_words_message words;
    gw_rdma_want_message want;
    gw_rdma_lent_message lent;
    gw_rdma_back_message back;
} gw_rdma_message_body;

/* Encode a message and return its length in bytes. */
uint32_t gw_rdma_slots_encode(const gw_rdma_slots_message *slots, uint8_t bytes[GW_PATH_MESSAGE_BYTES]);
uint32_t gw_rdma_words_encode(const gw_rdma_words_message *words, uint8_t bytes[GW_PATH_MESSAGE_BYTES]);
uint32_t gw_rdma_want_encode(const gw_rdma_want_message *want, uint8_t bytes[GW_PATH_MESSAGE_BYTES]);
uint32_t gw_rdma_lent_encode(const gw_rdma_lent_message *lent, uint8_t bytes[GW_PATH_MESSAGE_BYTES]);
uint32_t gw_rdma_back_encode(const gw_rdma_back_message *back, uint8_t bytes[GW_PATH_MESSAGE_BYTES]);
/* Decodes a message into the member of `body` for the type that it returns. GW_RDMA_MESSAGE_BAD: the message
 * is malformed. */
gw_rdma_message gw_rdma_message_decode(const uint8_t *bytes, uint32_t count, gw_rdma_message_body *body);

uint32_t gw_rdma_card_encode(const gw_rdma_card *card, uint8_t bytes[GW_PATH_CARD_BYTES]);
bool gw_rdma_card_decode(const uint8_t *bytes, uint32_t count, gw_rdma_card *card);

#endif
