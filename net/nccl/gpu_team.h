/* The agreement of a view's members on one NCCL communicator. Every member tells the leader how many GPUs it
 * has, and whether it can narrow sums; when the leader knows all numbers and has an id, it tells the id and the numbers to everybody. Ranks
 * are in the order of the view's members.
 *
 * A failed communicator cannot be joined again, so one view may take several attempts, which are numbered. A
 * member that installs the view again begins the next attempt, and the leader calls the other members to it.
 * The leader waits for all of them: a member that has left the view meanwhile comes back by installing it
 * again, and no member is kept waiting in NCCL.
 *
 * This is a pure state machine: it calls `world` to send messages and to act. Its messages name the view
 * (epoch and name). Those of another view are dropped, or kept if they come before the view. They must travel
 * on control links only, which are encrypted if there is a key, because a process that knows an id may take
 * part in a sum.
 *
 * Links may break and come back: gw_gpu_team_linked repeats what may have been lost.
 *
 * Thread: one at a time. `world` may call gw_gpu_team_id at once. */
#ifndef GODWIT_NET_NCCL_GPU_TEAM_H
#define GODWIT_NET_NCCL_GPU_TEAM_H

#include "core/record/view.h"
#include "net/nccl/nccl.h"

typedef struct gw_gpu_team gw_gpu_team;

/* The first byte of every message; those of the brain begin with another one (core/brain/message.h). */
enum { GW_GPU_TEAM_MARK = 'G' };

typedef struct gw_gpu_team_world {
    void *context;
    /* Sends a message. It is dropped silently if there is no link. */
    void (*send)(void *context, const gw_peer_id *to, const uint8_t *bytes, size_t length);
    /* Requests an id, which gw_gpu_team_id delivers at any later time, or never. */
    void (*make_id)(void *context, const gw_fence *fence);
    void (*form)(void *context, const gw_fence *fence, const gw_nccl_team *team);
} gw_gpu_team_world;

/* What a peer brings into a team. */
typedef struct gw_gpu_team_share {
    uint32_t gpus; /* 1 to GW_NCCL_GPUS */
    bool narrow; /* it can narrow exact sums (net/nccl/narrow.h), which a team does if all its members can */
} gw_gpu_team_share;

/* Opens a team in no view. NULL if out of memory. */
gw_gpu_team *gw_gpu_team_open(const gw_peer_id *self, const gw_gpu_team_share *share,
                              const gw_gpu_team_world *world, gw_err *err);
void gw_gpu_team_close(gw_gpu_team *team); /* NULL is allowed */

/* Notes that this peer is in the view. Installing the view that it is in, or was in last, begins another
 * attempt. gw_gpu_team_leave: it is in none. */
void gw_gpu_team_install(gw_gpu_team *team, const gw_view *view);
void gw_gpu_team_leave(gw_gpu_team *team);

/* Notes that a control link to this peer came up. */
void gw_gpu_team_linked(gw_gpu_team *team, const gw_peer_id *peer);
/* Takes a message that begins with the mark. False if it is malformed or out of place. */
bool gw_gpu_team_hear(gw_gpu_team *team, const gw_peer_id *from, const uint8_t *bytes, size_t length,
                      gw_err *err);
/* Takes an id that nobody has used, for the present attempt or for the next one that this peer leads. */
void gw_gpu_team_id(gw_gpu_team *team, const gw_nccl_id *id);

#endif
