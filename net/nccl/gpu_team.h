/* How the members of a view come to one NCCL communicator: everybody tells the leader how many GPUs it has;
 * when the leader has heard all and has an id, it tells everybody that and all the numbers. Ranks are in the
 * order of the view's members.
 *
 * A communicator that failed cannot be joined again, so one view may take several attempts, which have
 * numbers. Whoever installs the view again begins the next attempt; the leader calls the others to it. It
 * waits for all of them: who has left the view meanwhile comes by installing it again, and nobody is kept
 * waiting in NCCL.
 *
 * A pure state machine: it says what to send and what to do by calling `world`. Its messages name the view
 * (epoch and name): what is of another view is dropped, or kept if it comes before the view. They must travel
 * on control links alone, which are encrypted where there is a key: who knows an id may take part in a sum.
 *
 * Links may break and come again: gw_gpu_team_linked says again what may have been lost.
 *
 * Thread: one at a time. `world` may call gw_gpu_team_id at once. */
#ifndef GODWIT_NET_NCCL_GPU_TEAM_H
#define GODWIT_NET_NCCL_GPU_TEAM_H

#include "core/record/view.h"
#include "net/nccl/nccl.h"

typedef struct gw_gpu_team gw_gpu_team;

/* First byte of every message; the brain's begin with another (core/brain/message.h). */
enum { GW_GPU_TEAM_MARK = 'G' };

typedef struct gw_gpu_team_world {
    void *context;
    /* Dropped silently where no link stands. */
    void (*send)(void *context, const gw_peer_id *to, const uint8_t *bytes, size_t length);
    /* Answered by gw_gpu_team_id, sooner or later or never. */
    void (*make_id)(void *context, const gw_fence *fence);
    void (*form)(void *context, const gw_fence *fence, const gw_nccl_team *team);
} gw_gpu_team_world;

/* `gpus` of this peer, 1 to GW_NCCL_GPUS. NULL: out of memory. */
gw_gpu_team *gw_gpu_team_open(const gw_peer_id *self, uint32_t gpus, const gw_gpu_team_world *world,
                              gw_err *err);
void gw_gpu_team_close(gw_gpu_team *team); /* NULL is allowed */

/* This peer is in the view from now on: installing the view that it is in, or was in last, begins another
 * attempt. In none. */
void gw_gpu_team_install(gw_gpu_team *team, const gw_view *view);
void gw_gpu_team_leave(gw_gpu_team *team);

/* A control link to this peer came up. */
void gw_gpu_team_linked(gw_gpu_team *team, const gw_peer_id *peer);
/* A message that begins with the mark. False: it makes no sense. */
bool gw_gpu_team_hear(gw_gpu_team *team, const gw_peer_id *from, const uint8_t *bytes, size_t length,
                      gw_err *err);
/* An id that nobody has used: for the attempt under way, or the next one that this peer leads. */
void gw_gpu_team_id(gw_gpu_team *team, const gw_nccl_id *id);

#endif
