#include "net/nccl/gpu_team.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

enum {
    VERSION = 2,
    HEAD_BYTES = 3 + 8 + 16 + 4,
    TEAM_BYTES = HEAD_BYTES + GW_NCCL_ID_BYTES + 2 + GW_MAX_MEMBERS
};

/* The kinds of messages. Each begins with mark u8 | version u8 | kind u8 | epoch u64 | view 16 | attempt u32.
 * ENTER continues with gpus u8, TEAM and NARROW_TEAM with id 128 | members u16 | gpus u8 of each; CALL and
 * NARROWS have nothing more. NARROWS comes before the ENTER of a peer that can narrow sums. A leader of a build
 * that does not know it drops it and makes a TEAM; a NARROW_TEAM goes to peers that have sent it. */
typedef enum message { ENTER = 1, TEAM, CALL, NARROWS, NARROW_TEAM } message;

/* A message of a peer about an attempt, or what several of them have told. */
typedef struct entry {
    gw_peer_id peer;
    gw_fence fence;
    uint32_t attempt;
    uint8_t gpus; /* 0: not told */
    bool narrows;
} entry;

struct gw_gpu_team {
    gw_peer_id self;
    uint8_t gpus;
    bool can_narrow;
    gw_gpu_team_world world;
    bool installed, formed, asked; /* asked: an id was requested */
    gw_view view;
    gw_fence fence;
    uint32_t attempt; /* the number in this view, from 1; it stays when the view is left */
    gw_nccl_id id;    /* the id of the attempt, once it has formed */
    gw_nccl_id fresh; /* an id that nobody was told yet */
    bool has_fresh;
    uint8_t counts[GW_MAX_MEMBERS]; /* the GPUs of each member; 0: not known */
    bool narrows[GW_MAX_MEMBERS];   /* on the leader: which members can narrow sums */
    bool narrow;                    /* the attempt, once it has formed, narrows sums */
    entry early[GW_MAX_MEMBERS]; /* what came of a peer's last attempt before this peer installed its view */
    uint32_t early_count;
};

static bool leads(const gw_gpu_team *t) {
    return gw_peer_id_equal(&t->view.leader, &t->self);
}

/* Messages that are sent. */

static void put_head(gw_writer *w, const gw_gpu_team *t, message kind) {
    gw_put_u8(w, GW_GPU_TEAM_MARK);
    gw_put_u8(w, VERSION);
    gw_put_u8(w, (uint8_t)kind);
    gw_put_u64(w, t->fence.epoch);
    gw_put_view_name(w, &t->fence.view);
    gw_put_u32(w, t->attempt);
}

static void send_head(const gw_gpu_team *t, message kind, const gw_peer_id *to) {
    uint8_t bytes[HEAD_BYTES];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    put_head(&w, t, kind);
    GW_ASSERT(!w.failed);
    t->world.send(t->world.context, to, bytes, w.length);
}

static void send_enter(const gw_gpu_team *t) {
    uint8_t bytes[HEAD_BYTES + 1];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    if (t->can_narrow) send_head(t, NARROWS, &t->view.leader);
    put_head(&w, t, ENTER);
    gw_put_u8(&w, t->gpus);
    GW_ASSERT(!w.failed);
    t->world.send(t->world.context, &t->view.leader, bytes, w.length);
}

static void send_team(const gw_gpu_team *t, const gw_peer_id *to) {
    uint8_t bytes[TEAM_BYTES];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    put_head(&w, t, t->narrow ? NARROW_TEAM : TEAM);
    gw_put_bytes(&w, t->id.bytes, sizeof t->id.bytes);
    gw_put_u16(&w, (uint16_t)t->view.count);
    gw_put_bytes(&w, t->counts, t->view.count);
    GW_ASSERT(!w.failed);
    t->world.send(t->world.context, to, bytes, w.length);
}

static void send_call(const gw_gpu_team *t, const gw_peer_id *to) {
    send_head(t, CALL, to);
}

static void send_to_all(const gw_gpu_team *t, void say(const gw_gpu_team *t, const gw_peer_id *to)) {
    for (uint32_t i = 0; i < t->view.count; i++)
        if (!gw_peer_id_equal(&t->view.members[i].id, &t->self)) say(t, &t->view.members[i].id);
}

/* The steps of an attempt. */

static void form(gw_gpu_team *t) {
    gw_nccl_team team = {.id = t->id, .narrow = t->narrow};
    int rank = gw_view_rank(&t->view, &t->self);
    for (uint32_t i = 0; i < t->view.count; i++) {
        if ((int)i < rank) team.first += t->counts[i];
        team.ranks += t->counts[i];
    }
    t->formed = true;
    t->world.form(t->world.context, &t->fence, &team);
}

/* Called on the leader: when all members have entered and there is an id, tells everybody. The id is
 * requested no sooner, and kept if it comes too late, since NCCL keeps a thread and a socket for each id
 * until all its ranks have joined. */
static void form_when_complete(gw_gpu_team *t) {
    if (t->formed) return;
    for (uint32_t i = 0; i < t->view.count; i++)
        if (t->counts[i] == 0) return;
    if (!t->has_fresh) {
        if (t->asked) return;
        t->asked = true;
        t->world.make_id(t->world.context, &t->fence);
        return;
    }
    t->id = t->fresh;
    t->has_fresh = false;
    t->narrow = true;
    for (uint32_t i = 0; i < t->view.count; i++) t->narrow = t->narrow && t->narrows[i];
    send_to_all(t, send_team);
    form(t);
}

/* Begins an attempt. Nothing of an earlier one counts: its id cannot be joined again, and members may have
 * given up since. */
static void begin(gw_gpu_team *t, uint32_t attempt) {
    t->attempt = attempt;
    t->formed = t->asked = false;
    memset(t->counts, 0, sizeof t->counts);
    memset(t->narrows, 0, sizeof t->narrows);
    if (!leads(t)) {
        send_enter(t);
        return;
    }
    int rank = gw_view_rank(&t->view, &t->self);
    t->counts[rank] = t->gpus;
    t->narrows[rank] = t->can_narrow;
    if (attempt > 1) send_to_all(t, send_call); /* all members enter the first attempt by themselves */
    form_when_complete(t);
}

/* Called on the leader: notes that a member has entered an attempt. */
static void take_enter(gw_gpu_team *t, int rank, uint32_t attempt, uint8_t gpus) {
    const gw_peer_id *from = &t->view.members[rank].id;
    if (attempt < t->attempt) { /* it has not received the call yet */
        send_call(t, from);
        return;
    }
    if (attempt > t->attempt) {
        begin(t, attempt);
    } else if (t->formed) { /* it was told, and lost what it was told */
        send_team(t, from);
        return;
    }
    t->counts[rank] = gpus;
    form_when_complete(t);
}

/* Called on the leader: notes that a member that is about to enter an attempt can narrow sums. */
static void take_narrows(gw_gpu_team *t, int rank, uint32_t attempt) {
    if (attempt > t->attempt) begin(t, attempt);
    if (attempt == t->attempt) t->narrows[rank] = true;
}

void gw_gpu_team_install(gw_gpu_team *t, const gw_view *view) {
    GW_ASSERT(gw_view_rank(view, &t->self) >= 0);
    gw_fence fence = {.epoch = view->epoch, .view = view->name};
    uint32_t attempt = gw_fence_equal(&fence, &t->fence) ? t->attempt + 1 : 1;
    t->view = *view;
    t->fence = fence;
    t->installed = true;
    begin(t, attempt);
    for (uint32_t i = 0; i < t->early_count && leads(t); i++) {
        int rank = gw_view_rank(view, &t->early[i].peer);
        if (rank < 0 || !gw_fence_equal(&t->early[i].fence, &t->fence)) continue;
        if (t->early[i].narrows) take_narrows(t, rank, t->early[i].attempt);
        if (t->early[i].gpus > 0) take_enter(t, rank, t->early[i].attempt, t->early[i].gpus);
    }
    t->early_count = 0;
}

void gw_gpu_team_leave(gw_gpu_team *t) {
    t->installed = false;
}

void gw_gpu_team_id(gw_gpu_team *t, const gw_nccl_id *id) {
    if (t->has_fresh) return;
    t->fresh = *id;
    t->has_fresh = true;
    if (t->installed && leads(t)) form_when_complete(t);
}

void gw_gpu_team_linked(gw_gpu_team *t, const gw_peer_id *peer) {
    if (!t->installed) return;
    if (leads(t)) {
        if (gw_view_rank(&t->view, peer) < 0) return;
        if (t->formed)
            send_team(t, peer);
        else if (t->attempt > 1)
            send_call(t, peer);
    } else if (!t->formed && gw_peer_id_equal(peer, &t->view.leader)) {
        send_enter(t);
    }
}

/* Messages that are received. */

static void keep_early(gw_gpu_team *t, const entry *told) {
    uint32_t i = 0;
    while (i < t->early_count && !gw_peer_id_equal(&t->early[i].peer, &told->peer)) i++;
    if (i == GW_MAX_MEMBERS)
        i = 0; /* there are more peers than a view can have, so one of them is not needed */
    entry *kept = &t->early[i];
    bool same = i < t->early_count && gw_peer_id_equal(&kept->peer, &told->peer) &&
                kept->attempt == told->attempt && gw_fence_equal(&kept->fence, &told->fence);
    bool narrows = told->narrows || (same && kept->narrows);
    uint8_t gpus = told->gpus == 0 && same ? kept->gpus : told->gpus;
    *kept = *told;
    kept->narrows = narrows;
    kept->gpus = gpus;
    if (i == t->early_count) t->early_count++;
}

/* Takes an ENTER, or a NARROWS, whose entry has no GPUs. */
static bool take_entry(gw_gpu_team *t, const entry *told, gw_err *err) {
    if (!t->installed || !gw_fence_equal(&told->fence, &t->fence)) {
        keep_early(t, told);
        return true;
    }
    int rank = gw_view_rank(&t->view, &told->peer);
    if (rank < 0 || !leads(t)) return gw_fail(err, GW_E_INVALID, "a number of GPUs went to the wrong peer");
    if (told->narrows)
        take_narrows(t, rank, told->attempt);
    else
        take_enter(t, rank, told->attempt, told->gpus);
    return true;
}

static bool take_enter_message(gw_gpu_team *t, entry *told, gw_reader *r, gw_err *err) {
    told->gpus = gw_get_u8(r);
    if (!gw_reader_done(r) || told->gpus < 1 || told->gpus > GW_NCCL_GPUS)
        return gw_fail(err, GW_E_INVALID, "a peer's number of GPUs is impossible");
    return take_entry(t, told, err);
}

static bool take_narrows_message(gw_gpu_team *t, entry *told, const gw_reader *r, gw_err *err) {
    told->narrows = true;
    if (!gw_reader_done(r)) return gw_fail(err, GW_E_INVALID, "a message about narrow sums that is too long");
    return take_entry(t, told, err);
}

static bool take_call_message(gw_gpu_team *t, const entry *head, const gw_reader *r, gw_err *err) {
    if (!gw_reader_done(r)) return gw_fail(err, GW_E_INVALID, "a call that is too long");
    if (!t->installed || !gw_fence_equal(&head->fence, &t->fence))
        return true; /* a peer that comes back begins a new attempt */
    if (!gw_peer_id_equal(&head->peer, &t->view.leader))
        return gw_fail(err, GW_E_INVALID, "a call from a peer that does not lead");
    if (head->attempt > t->attempt) begin(t, head->attempt);
    return true;
}

static bool take_team_message(gw_gpu_team *t, const entry *head, bool narrow, gw_reader *r, gw_err *err) {
    gw_nccl_id id;
    uint8_t counts[GW_MAX_MEMBERS];
    gw_get_bytes(r, id.bytes, sizeof id.bytes);
    uint32_t members = gw_get_u16(r);
    if (members < 1 || members > GW_MAX_MEMBERS) return gw_fail(err, GW_E_INVALID, "a team of %u", members);
    gw_get_bytes(r, counts, members);
    bool sound = gw_reader_done(r);
    for (uint32_t i = 0; i < members; i++) sound = sound && counts[i] >= 1 && counts[i] <= GW_NCCL_GPUS;
    if (!sound) return gw_fail(err, GW_E_INVALID, "a team's list of GPUs is malformed");
    bool present = t->installed && gw_fence_equal(&head->fence, &t->fence) && head->attempt == t->attempt;
    if (!present || t->formed) return true; /* the message is too late or a repetition */
    int rank = gw_view_rank(&t->view, &t->self);
    if (!gw_peer_id_equal(&head->peer, &t->view.leader) || members != t->view.count ||
        counts[rank] != t->gpus || (narrow && !t->can_narrow))
        return gw_fail(err, GW_E_INVALID, "a team that is not the view's");
    memcpy(t->counts, counts, members);
    t->id = id;
    t->narrow = narrow;
    form(t);
    return true;
}

bool gw_gpu_team_hear(gw_gpu_team *t, const gw_peer_id *from, const uint8_t *bytes, size_t length,
                      gw_err *err) {
    gw_reader r = gw_reader_on(bytes, length);
    uint8_t mark = gw_get_u8(&r), version = gw_get_u8(&r), kind = gw_get_u8(&r);
    entry head = {.peer = *from, .fence.epoch = gw_get_u64(&r)};
    gw_get_view_name(&r, &head.fence.view);
    head.attempt = gw_get_u32(&r);
    char name[GW_SHORT_TEXT];
    bool good;
    if (r.failed || mark != GW_GPU_TEAM_MARK || version != VERSION)
        good = gw_fail(err, GW_E_INVALID, "a message about GPUs of version %u, this is %u", version, VERSION);
    else if (kind == ENTER)
        good = take_enter_message(t, &head, &r, err);
    else if (kind == TEAM || kind == NARROW_TEAM)
        good = take_team_message(t, &head, kind == NARROW_TEAM, &r, err);
    else if (kind == CALL)
        good = take_call_message(t, &head, &r, err);
    else if (kind == NARROWS)
        good = take_narrows_message(t, &head, &r, err);
    else
        good = gw_fail(err, GW_E_INVALID, "a message about GPUs of kind %u", kind);
    return good || gw_fail_in(err, "net/nccl: from %s", gw_peer_id_short(from, name));
}

/* Life. */

gw_gpu_team *gw_gpu_team_open(const gw_peer_id *self, const gw_gpu_team_share *share,
                              const gw_gpu_team_world *world, gw_err *err) {
    GW_ASSERT(share->gpus >= 1 && share->gpus <= GW_NCCL_GPUS);
    gw_gpu_team *t = calloc(1, sizeof *t);
    if (!t) {
        gw_fail(err, GW_E_NOMEM, "net/nccl: out of memory");
        return NULL;
    }
    t->self = *self;
    t->gpus = (uint8_t)share->gpus;
    t->can_narrow = share->narrow;
    t->world = *world;
    return t;
}

void gw_gpu_team_close(gw_gpu_team *t) {
    free(t);
}
