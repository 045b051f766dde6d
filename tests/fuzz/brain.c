/* The target `brain`: the brain of a peer among others that send it anything, in a world where every
 * operation may fail, come late, or end. There are two or three real brains (brain_world.h), and messages
 * and datagrams that none of them has sent.
 *
 * An input is a byte that chooses the kind of world, and a script of operations: the operation (u8; its
 * upper half is the number of events for which the world goes on after it), the length (u16) of its
 * argument, and the argument. A brain may end the job, leave, or go on, but must break no invariant. */
#include "core/brain/message.h"
#include "tests/fuzz/brain_world.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD = 3, SCRIPT = 4096, FIRST_EVENTS = 100, LAST_EVENTS = 1500, JOB_EVENTS = 20000 };
enum { SAY_RAW, SAY_FITTING, DATAGRAM, BREAK_LINK, ASK, FATES, KILL, START, WAIT, CUT, FILL, DATA, SEEDS };
enum { RECORDED = 16, DISK_LOST = 32 }; /* argument of KILL, beside the brain's number */

typedef struct script {
    uint8_t bytes[SCRIPT];
    size_t count;
} script;

static void put(script *s, uint8_t operation, const void *bytes, size_t length) {
    if (s->count + HEAD + length > sizeof s->bytes) return;
    uint8_t *at = s->bytes + s->count;
    at[0] = operation;
    at[1] = (uint8_t)length;
    at[2] = (uint8_t)(length >> 8);
    memcpy(at + HEAD, bytes, length);
    s->count += HEAD + length;
}

/* Sends a message as if the second brain had sent it. `fitting`: it is about this job, and the view that
 * the first brain is in now. Returns false where no brain understands it. */
static bool say(world *w, const uint8_t *bytes, size_t length, bool fitting) {
    gw_message message;
    gw_err err;
    uint8_t *encoded = NULL;
    const gw_view *view = &w->brains[0].view;
    bool good = gw_message_decode(bytes, length, &message, &err);
    w->forged = true;
    if (good && fitting) {
        const char *identity = w->brains[0].config.identity;
        gw_blake2b(identity, strlen(identity), &message.job, sizeof message.job);
        if (view->epoch > 0) {
            message.epoch = view->epoch;
            message.name = view->name;
        }
        length = gw_message_encode(&message, &encoded);
        bytes = encoded;
    }
    if (good) gw_message_free(&message);
    world_post_bytes(w, 0, (gw_event){.kind = GW_EV_MESSAGE, .peer = w->brains[1].config.id}, bytes, length);
    free(encoded);
    return good;
}

static void ask(world *w, uint32_t i, uint8_t what) {
    static const gw_event_kind kinds[] = {GW_EV_STOP, GW_EV_LEAVE, GW_EV_FORCE_VIEW, GW_EV_DEVICE_LOST};
    gw_event_kind kind = kinds[what % 4];
    w->forged |= kind == GW_EV_FORCE_VIEW; /* both halves may go on from now */
    world_post(w, i, 0, (gw_event){.kind = kind});
}

static void kill_one(world *w, uint32_t i, uint8_t how) {
    world_kill(w, i, (how & RECORDED) != 0);
    if ((how & DISK_LOST) == 0) return;
    world_lose_disk(w, i);
    w->forged |= w->fast; /* states that a majority has shown may be lost with their disks */
}

/* Runs one operation. Returns false if it is none, or has an argument that no brain understands. */
static bool operate(world *w, uint8_t operation, const uint8_t *bytes, size_t length) {
    uint8_t first = length > 0 ? bytes[0] : 0, second = length > 1 ? bytes[1] : 0;
    uint32_t i = first % 16 % w->count;
    switch (operation) {
    case SAY_RAW:
    case SAY_FITTING:
        return say(w, bytes, length, operation == SAY_FITTING);
    case DATAGRAM:
        w->forged = true;
        world_post_bytes(w, 0,
                         (gw_event){.kind = GW_EV_DATAGRAM, .datagram.from = w->brains[1].config.addrs[0]},
                         bytes, length);
        return true;
    case BREAK_LINK:
        world_break_link(w, i, second % w->count);
        return true;
    case ASK:
        ask(w, i, second);
        return true;
    case FATES:
        for (size_t k = 0; k < length && w->fate_count < WORLD_FATES; k++)
            w->fates[w->fate_count++] = bytes[k];
        return true;
    case KILL:
        kill_one(w, i, first);
        return true;
    case START:
        world_start(w, i);
        return true;
    case WAIT:
        for (int k = 0; k < first && world_go_on(w); k++) continue;
        return true;
    case CUT:
        world_cut(w, i, second % 16 % w->count, second < 16);
        return true;
    case FILL:
        w->brains[i].disk_full = second % 2 == 1;
        return true;
    case DATA:
        world_data(w, i, second % 16 % w->count, second < 16);
        return true;
    case SEEDS:
        world_tell_seeds(w, i, second);
        return true;
    default:
        return false;
    }
}

static bool play(world *w, const uint8_t *bytes, size_t count) {
    bool understood = true;
    for (size_t at = 0; at + HEAD <= count;) {
        size_t length = (size_t)bytes[at + 1] | (size_t)bytes[at + 2] << 8;
        uint8_t operation = bytes[at];
        at += HEAD;
        understood &= length <= count - at;
        if (length > count - at) length = count - at;
        understood &= operate(w, operation % 16, bytes + at, length);
        at += length;
        for (int k = operation / 16; k > 0; k--) world_go_on(w);
    }
    return understood;
}

static bool take_brain(const uint8_t *bytes, size_t count) {
    if (count == 0) return false;
    world *w = world_open(bytes[0]);
    for (uint32_t k = 0; k < FIRST_EVENTS; k++) world_go_on(w);
    bool understood = play(w, bytes + 1, count - 1);
    for (uint32_t end = w->handled + LAST_EVENTS; w->handled < end && world_go_on(w);) continue;
    world_close(w);
    return understood;
}

/* Examples. */

typedef struct listener {
    fuzz_add *add;
    void *context;
    uint8_t kind;
} listener;

static void listen(void *context, bool datagram, const uint8_t *bytes, size_t length) {
    const listener *l = context;
    script s = {.bytes = {l->kind}, .count = 1};
    put(&s, datagram ? DATAGRAM : SAY_FITTING, bytes, length);
    l->add(l->context, s.bytes, s.count);
}

/* Adds a whole job that comes to its end despite the script. If nothing disturbs it, every message and
 * datagram of it is an example as well. */
static void add_job(fuzz_add *add, void *context, const script *s) {
    listener l = {add, context, s->bytes[0]};
    world *w = world_open(s->bytes[0]);
    if (s->count == 1) {
        w->listener = listen;
        w->context = &l;
    } else {
        add(context, s->bytes, s->count);
        for (uint32_t k = 0; k < FIRST_EVENTS; k++) world_go_on(w);
    }
    GW_ASSERT(play(w, s->bytes + 1, s->count - 1));
    while (w->handled < JOB_EVENTS && !world_is_done(w) && world_go_on(w)) continue;
    GW_ASSERT(world_is_done(w));
    world_close(w);
}

static void add_quiet(fuzz_add *add, void *context) {
    static const uint8_t kinds[] = {0, WORLD_MAJORITY | WORLD_FAST | WORLD_THREE,
                                    WORLD_THREE | 3 * WORLD_VERIFY};
    for (size_t k = 0; k < sizeof kinds; k++)
        add_job(add, context, &(script){.bytes = {kinds[k]}, .count = 1});
}

/* Adds scripts in which one brain is killed and restarted, or all are; a disk is lost; operations come
 * late; a brain is cut off, or has no data links; or all disks are full. */
static void add_disturbed(fuzz_add *add, void *context) {
    static const uint8_t kinds[] = {WORLD_THREE, WORLD_THREE | WORLD_MAJORITY,
                                    WORLD_THREE | WORLD_MAJORITY | WORLD_FAST | 3 * WORLD_VERIFY,
                                    WORLD_THREE | 3 * WORLD_VERIFY | WORLD_SKIP_BAD,
                                    WORLD_THREE | WORLD_BEST};
    static const uint8_t late[] = {0, 0, 64, 0, 80, 72, 0, 4, 0, 56, 0, 0, 112, 0, 0, 6, 0, 0, 72, 0, 0, 96};
    for (size_t k = 0; k < sizeof kinds; k++) {
        script one = {.bytes = {kinds[k]}, .count = 1}, all = one, fates = one, disk = one, cut = one,
               full = one, data = one;
        put(&one, KILL | 0xF0, (uint8_t[]){1 | RECORDED}, 1);
        put(&one, WAIT, (uint8_t[]){40}, 1);
        put(&one, START, (uint8_t[]){1}, 1);
        for (uint8_t i = 0; i < WORLD_BRAINS; i++) put(&all, KILL, &i, 1);
        for (uint8_t i = 0; i < WORLD_BRAINS; i++) put(&all, START | 0x30, &i, 1);
        put(&disk, WAIT, (uint8_t[]){100}, 1);
        put(&disk, KILL | 0x40, (uint8_t[]){2 | DISK_LOST}, 1);
        put(&disk, START, (uint8_t[]){2}, 1);
        put(&disk, BREAK_LINK, (uint8_t[]){0, 1}, 2);
        put(&fates, FATES, late, sizeof late);
        for (uint8_t i = 0; i < 2; i++) put(&cut, CUT, (uint8_t[]){2, i}, 2);
        put(&cut, WAIT, (uint8_t[]){200}, 1);
        for (uint8_t i = 0; i < 2; i++) put(&cut, CUT, (uint8_t[]){2, 16 | i}, 2);
        for (uint8_t i = 0; i < WORLD_BRAINS; i++) put(&full, FILL, (uint8_t[]){i, 1}, 2);
        for (uint8_t i = 0; i < 2; i++) put(&data, DATA, (uint8_t[]){2, i}, 2);
        for (uint8_t i = 0; i < 2; i++) put(&data, SEEDS, (uint8_t[]){i, i == 0 ? 6 : 0}, 2);
        put(&data, WAIT, (uint8_t[]){200}, 1);
        for (uint8_t i = 0; i < 2; i++) put(&data, DATA, (uint8_t[]){2, 16 | i}, 2);
        add_job(add, context, &data);
        add_job(add, context, &cut);
        add_job(add, context, &full);
        add_job(add, context, &one);
        add_job(add, context, &all);
        add_job(add, context, &fates);
        if ((kinds[k] & WORLD_FAST) == 0) add_job(add, context, &disk);
    }
}

static void brain_examples(fuzz_add *add, void *context) {
    add_disturbed(add, context);
    add_quiet(add, context);
}

const fuzz_target fuzz_brain = {"brain", 400, 4096, brain_examples, NULL, take_brain};
