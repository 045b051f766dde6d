/* A service for clients (tools/godwit/service) in a small world: the asked peer has a store and a manifest
 * in the scratch folder, the other peers exist as rows of a table. */
#ifndef GODWIT_TESTS_TOOLS_SERVICE_RIG_H
#define GODWIT_TESTS_TOOLS_SERVICE_RIG_H

#include "net/link/listener.h"
#include "tools/godwit/service/client.h"
#include "tools/godwit/service/service.h"
#include "tools/godwit/show/control.h"

#include <pthread.h>
#include <stdatomic.h>

enum { RIG_CHUNKS = 3, RIG_OTHERS = 2, RIG_STEP = 40 };
#define RIG_STATE_BYTES (2 * (uint64_t)GW_CHUNK_BYTES + 1000)

typedef enum rig_manner { RIG_ANSWERS, RIG_LIES, RIG_IS_SILENT, RIG_TELLS_NOTHING, RIG_HANGS } rig_manner;

typedef struct rig_other {
    gw_peer_id id;
    gw_addr addr;
    _Atomic(rig_manner) manner;
    uint32_t has; /* its chunks, as bits */
    _Atomic uint32_t asked;
} rig_other;

typedef struct service_rig {
    gw_manifest manifest; /* of a state of RIG_CHUNKS chunks at RIG_STEP */
    uint8_t *state;
    gw_store *store;
    rig_other others[RIG_OTHERS];
    pthread_mutex_t lock; /* guards `released` */
    pthread_cond_t changed;
    bool released; /* peers that hang go on */
    _Atomic uint32_t hanging;

    char folder[300]; /* of the asked peer */
    gw_identity identity;
    gw_keyring keyring;
    gw_local local;
    gw_loop *loop;
    pthread_t thread;
    gw_listener *listener;
    gw_service *service;
    gw_board *board;
    gw_control *control;
    char address[64]; /* HOST:PORT of the listener */
} service_rig;

/* Makes the world; the asked peer's store has the chunks whose bits are in `has`. `key`: the number of the
 * cluster's key; 0 = there is none. The scratch folder is open. */
void service_rig_open(service_rig *rig, uint32_t has, uint8_t key);
/* Makes another peer of the same world, in a folder of this name in the scratch folder. */
void service_rig_open_in(service_rig *rig, const char *folder, uint32_t has, uint8_t key);
void service_rig_close(service_rig *rig);
/* Stops the service and its listener, as a peer that ends; starts them at the same address. */
void service_rig_stop(service_rig *rig);
void service_rig_start(service_rig *rig);
/* Lets peers that hang go on, each of them with an error. */
void service_rig_release(service_rig *rig);
/* The bytes of a chunk. */
const uint8_t *service_rig_chunk(const service_rig *rig, uint32_t chunk);
/* Writes the key of this number to a file in the scratch folder; returns its path. */
const char *service_rig_key_file(uint8_t number);

#endif
