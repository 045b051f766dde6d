#include "checkpoint/catalog.h"
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/base/mix.h"
#include "core/os/clock.h"
#include "tools/godwit/flock/inside.h"
#include "tools/godwit/flock/submission.h"
#include "tools/godwit/flock/unpack.h"
#include "tools/godwit/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEEP_NS       (10 * GW_SECOND_NS) /* what is ready and was not used is made ready anew after that */
#define WAIT_CLOSE_NS (5 * GW_SECOND_NS)

typedef enum purpose {
    START,   /* a child of a job starts here */
    CHECK,   /* the files that a submission names are here */
    PLACE,   /* another member is to hold the files of a submission */
    HOLD,    /* this member is to hold files */
    ENTRUST, /* another member is to keep the newest checkpoint of a job that is here */
    KEEP,    /* this member is to keep the newest checkpoint of a job, which another one has */
    BRING,   /* a command wants the newest checkpoint of a job */
} purpose;

struct gw_preparation {
    gw_flock_member *m;
    purpose purpose;
    gw_job_record_id id;
    gw_hash files; /* all zeros: none */
    uint8_t token[16];
    char *directory; /* NULL: the job has one of its own */
    char folder[GW_KEEPER_FOLDER_TEXT];
    bool wants_checkpoint;
    gw_job_record_id line[GW_MEMBER_LINE]; /* START: the job, and those that it tries again */
    uint32_t line_count;
    bool adopts;       /* the job goes on from the checkpoints of another one, which may have run here */
    bool is_map;       /* its tasks are among the files */
    gw_peer_id *peers; /* that are asked, in this order */
    uint32_t peer_count;
    gw_reply reply;    /* CHECK; HOLD; KEEP; BRING */
    bool unasked;      /* HOLD: by this member's own accord, and nobody waits for the answer */
    gw_reply *waiting; /* commands that want the job's checkpoint when this is over */
    uint32_t waiting_count;
    gw_job_record record; /* CHECK */
    gw_helper *thread;
    bool good;
    gw_err err;
    bool in_directory; /* the submitter's directory is here */
    bool
        runs_elsewhere; /* START: other nodes run the job, which may give it a newer state or not be there any more */
    uint64_t step;       /* of the checkpoint that is here; ENTRUST: of the one that the other one has */
    uint64_t least_step; /* START: of a checkpoint that nodes had */
    uint64_t began_ns, finished_ns; /* 0: not yet */
};

static bool is_none(const void *bytes, size_t count) {
    const uint8_t *at = bytes;
    for (size_t i = 0; i < count; i++)
        if (at[i] != 0) return false;
    return true;
}

/* On the thread. */

/* Whether the submitter's directory is here: his token is in it. */
static bool has_token(const gw_preparation *p) {
    char path[GW_PATH_BYTES], text[2 * sizeof p->token + 1], found[2 * sizeof p->token];
    gw_err err;
    if (p->directory == NULL || is_none(p->token, sizeof p->token) ||
        !gw_durable_path(path, &err, "%s/%s", p->directory, GW_MEMBER_TOKEN_NAME))
        return false;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    gw_hex(p->token, sizeof p->token, text);
    bool same =
        read(fd, found, sizeof found) == (ssize_t)sizeof found && memcmp(found, text, sizeof found) == 0;
    close(fd);
    return same;
}

static bool read_chunk(void *context, const gw_hash *chunk, void *bytes, uint32_t length, gw_err *err) {
    const gw_preparation *p = context;
    return gw_store_read(p->m->chunks, chunk, bytes, length, err);
}

static bool unpack(gw_preparation *p, gw_transfer *t, gw_err *err) {
    gw_job_files files;
    char work[GW_PATH_BYTES];
    gw_io *io = gw_io_system();
    if (!gw_durable_path(work, err, "%s/work", p->folder) || !gw_durable_folder(io, p->folder, NULL, err) ||
        !gw_durable_folder(io, work, NULL, err) || !gw_transfer_files(t, &p->files, &files, err))
        return false;
    bool good = gw_unpack(work, &files, read_chunk, p, err);
    gw_job_files_free(&files);
    return good;
}

/* Brings the checkpoint from which the child goes on, unless it gets its state from others. */
static bool bring_checkpoint(gw_preparation *p, gw_transfer *t, gw_err *err) {
    char state[GW_PATH_BYTES];
    if (!gw_durable_folder(gw_io_system(), p->folder, NULL, err) ||
        !gw_durable_path(state, err, "%s/state", p->folder))
        return false;
    if (!gw_transfer_checkpoint(t, &p->id, state, false, &p->step, err))
        return p->runs_elsewhere && err->code == GW_E_NOTFOUND;
    return p->step >= p->least_step || p->runs_elsewhere ||
           gw_fail(err, GW_E_NOTFOUND,
                   "its checkpoint of step %llu is on nodes that are not here, and the newest that is here "
                   "is that of "
                   "step %llu",
                   (unsigned long long)p->least_step, (unsigned long long)p->step);
}

/* Asks a member for a piece of the rows of a map. *size becomes that of all of them. */
static bool read_rows(gw_preparation *p, const gw_peer_id *peer, const gw_job_record_id *job, uint64_t offset,
                      void **bytes, size_t *count, uint64_t *size, gw_err *err) {
    char text[GW_JOB_RECORD_ID_TEXT];
    gw_hex(job->bytes, sizeof job->bytes, text);
    json_t *request = json_pack("{s:s,s:s}", "do", "rows", "job", text);
    gw_json_count(request, "offset", offset);
    json_t *answer = gw_transfer_ask(p->m, peer, request, bytes, count, err);
    *size = (uint64_t)json_integer_value(json_object_get(answer, "size"));
    json_decref(answer);
    return answer != NULL;
}

/* Finds the member that has most rows of a job. */
static bool find_rows(gw_preparation *p, const gw_job_record_id *job, const gw_peer_id **peer, uint64_t *size,
                      gw_err *err) {
    *size = 0;
    for (uint32_t i = 0; i < p->peer_count; i++) {
        void *bytes;
        size_t count;
        uint64_t own;
        bool good = read_rows(p, &p->peers[i], job, 0, &bytes, &count, &own, err);
        if (!good && err->code == GW_E_ABORTED) return false;
        free(bytes);
        if (!good || own <= *size) continue;
        *size = own;
        *peer = &p->peers[i];
    }
    return true;
}

static bool copy_rows(gw_preparation *p, const gw_job_record_id *job, const gw_peer_id *peer, uint64_t size,
                      const char *path, gw_err *err) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return gw_fail_errno(err, errno, "%s cannot be written", path);
    bool good = true;
    for (uint64_t at = 0; at < size && good;) {
        void *bytes;
        size_t count;
        uint64_t now;
        good = read_rows(p, peer, job, at, &bytes, &count, &now, err) &&
               (count > 0 || gw_fail(err, GW_E_NOTFOUND, "the rows of the map have become fewer")) &&
               gw_durable_write_fd(gw_io_system(), fd, path, bytes, count, err);
        at += count;
        free(bytes);
    }
    close(fd);
    return good;
}

/* Brings what the map that this one tries again has done, for a child that has not begun yet. */
static bool bring_rows(gw_preparation *p, gw_err *err) {
    char path[GW_PATH_BYTES], rows[GW_PATH_BYTES];
    uint64_t size = 0;
    if (!gw_durable_folder(gw_io_system(), p->folder, NULL, err) ||
        !gw_durable_path(path, err, "%s/%s", p->folder, GW_CHILD_ROWS_BEFORE) ||
        !gw_durable_path(rows, err, "%s/%s", p->folder, GW_CHILD_ROWS))
        return false;
    if (access(rows, F_OK) == 0) return true;
    for (uint32_t i = 1; i < p->line_count && size == 0; i++) {
        const gw_peer_id *peer = NULL;
        if (!find_rows(p, &p->line[i], &peer, &size, err)) return false;
        if (size > 0 && !copy_rows(p, &p->line[i], peer, size, path, err)) return false;
    }
    return true;
}

static bool prepare_start(gw_preparation *p, gw_transfer *t, gw_err *err) {
    p->in_directory = has_token(p);
    if ((!p->in_directory || p->is_map) && !is_none(&p->files, sizeof p->files) && !unpack(p, t, err))
        return false;
    if (p->is_map && p->adopts && !bring_rows(p, err)) return false;
    return !p->wants_checkpoint || bring_checkpoint(p, t, err);
}

/* Has one of the others hold the files, of which this member asks one after the other. */
static bool place(gw_preparation *p, gw_err *err) {
    gw_fail(err, GW_E_NOTFOUND, "no other node is there");
    for (uint32_t i = 0; i < p->peer_count; i++) {
        void *bytes;
        size_t count;
        json_t *request = json_pack("{s:s}", "do", "hold");
        gw_json_hash(request, "files", &p->files);
        json_t *answer = gw_transfer_ask(p->m, &p->peers[i], request, &bytes, &count, err);
        json_decref(answer);
        free(bytes);
        if (answer != NULL) return true;
        if (err->code == GW_E_ABORTED) return false;
    }
    return false;
}

/* The newest step of which a checkpoint of the job is here; 0: there is none. */
static uint64_t newest_step(const char *state) {
    char found[GW_PATH_BYTES];
    gw_catalog catalog;
    gw_err err;
    if (!gw_directory_find(state, found, &err) || !gw_catalog_load(gw_io_system(), found, &catalog, &err))
        return 0;
    uint64_t step = catalog.good_count > 0 ? catalog.good[0].step : 0;
    gw_catalog_free(&catalog);
    return step;
}

/* Has another member keep what is newer here than what it has; without one, sees what is here. */
static bool entrust(gw_preparation *p, gw_err *err) {
    char state[GW_PATH_BYTES], job[GW_JOB_RECORD_ID_TEXT];
    void *bytes;
    size_t count;
    if (!gw_durable_path(state, err, "%s/state", p->folder)) return false;
    uint64_t step = newest_step(state);
    if (p->peer_count == 0) p->step = step; /* several nodes run the job, and all have it */
    if (step <= p->step) return true;
    gw_hex(p->id.bytes, sizeof p->id.bytes, job);
    json_t *answer = gw_transfer_ask(p->m, &p->peers[0], json_pack("{s:s,s:s}", "do", "keep", "job", job),
                                     &bytes, &count, err);
    if (answer == NULL) return false;
    p->step = (uint64_t)json_integer_value(json_object_get(answer, "step"));
    json_decref(answer);
    free(bytes);
    return true;
}

static bool keep(gw_preparation *p, gw_transfer *t, bool alone, gw_err *err) {
    char state[GW_PATH_BYTES];
    return gw_durable_folder(gw_io_system(), p->folder, NULL, err) &&
           gw_durable_path(state, err, "%s/state", p->folder) &&
           gw_transfer_checkpoint(t, &p->id, state, alone, &p->step, err);
}

static void finish(void *context);

static void run(void *context) {
    gw_preparation *p = context;
    gw_transfer t = {.m = p->m, .peers = p->peers, .count = p->peer_count};
    gw_job_files files;
    gw_err err;
    switch (p->purpose) {
    case START:
        p->good = prepare_start(p, &t, &p->err);
        break;
    case CHECK:
        p->good = gw_transfer_files(&t, &p->files, &files, &p->err);
        if (p->good) gw_job_files_free(&files);
        break;
    case PLACE:
        p->good = place(p, &p->err);
        break;
    case HOLD:
        p->good = gw_transfer_files(&t, &p->files, &files, &p->err);
        if (p->good) gw_job_files_free(&files);
        break;
    case ENTRUST:
        p->good = entrust(p, &p->err);
        break;
    case KEEP:
        p->good = keep(p, &t, true, &p->err);
        break;
    case BRING:
        p->good = keep(p, &t, false, &p->err);
        break;
    }
    if (!gw_loop_post(p->m->loop, finish, p, &err)) gw_log(GW_ERROR, "flock", "%s", err.text);
}

/* On the loop. */

static void drop(gw_preparation *p) {
    gw_flock_member *m = p->m;
    for (uint32_t i = 0; i < m->preparation_count; i++) {
        if (m->preparations[i] != p) continue;
        m->preparations[i] = m->preparations[--m->preparation_count];
        break;
    }
    gw_job_record_free(&p->record);
    free(p->directory);
    free(p->peers);
    free(p);
}

static gw_preparation *begin(gw_flock_member *m, const gw_preparation *like, gw_err *err);

/* Has another member hold the files of a job, in the background. */
static void place_elsewhere(gw_flock_member *m, const gw_job_record_id *id, const gw_hash *files) {
    gw_err err;
    gw_preparation like = {.m = m, .purpose = PLACE, .id = *id, .files = *files};
    if (gw_member_live_count(m) > 1 && begin(m, &like, &err) == NULL)
        gw_log(GW_WARN, "flock", "%s", err.text);
}

static void put_state(json_t *object, const char *folder) {
    char state[GW_PATH_BYTES];
    gw_err err;
    if (gw_durable_path(state, &err, "%s/state", folder)) gw_json_text(object, "state", state);
}

static void answer_held(const gw_preparation *p) {
    json_t *object = json_object();
    if (!p->good) {
        json_decref(object);
        gw_member_refuse(p->m, &p->reply, p->err.text);
        return;
    }
    gw_json_count(object, "step", p->step);
    if (p->purpose == BRING) put_state(object, p->folder);
    gw_member_answer(p->m, &p->reply, object, NULL, 0);
}

/* Does what was prepared for. A START stays, and waits to be used; any other preparation is gone. */
static void conclude(gw_preparation *p) {
    gw_flock_member *m = p->m;
    gw_helper_close(p->thread); /* it has nothing more to do */
    p->thread = NULL;
    p->finished_ns = gw_now_ns();
    switch (p->purpose) {
    case START:
        if (!atomic_load(&m->closing)) gw_member_decide_soon(m);
        return;
    case CHECK:
        if (!p->good) {
            gw_member_refuse(m, &p->reply, p->err.text);
            break;
        }
        gw_member_take_submission(m, &p->reply, &p->record, true);
        if (!atomic_load(&m->closing)) place_elsewhere(m, &p->id, &p->files);
        break;
    case PLACE:
        if (p->good) gw_member_files_held(m, &p->id);
        break;
    case ENTRUST:
        gw_member_entrusted(m, &p->id, p->peer_count > 0 ? &p->peers[0] : &m->identity.id,
                            p->good ? p->step : 0, p->finished_ns - p->began_ns);
        break;
    case HOLD:
        gw_member_held_files(m, &p->files, p->good);
        if (!p->unasked) answer_held(p);
        break;
    case KEEP:
    case BRING:
        answer_held(p);
        break;
    }
    drop(p);
    if (!atomic_load(&m->closing)) gw_member_decide_soon(m); /* a child may have waited for it */
}

static void finish(void *context) {
    gw_preparation *p = context;
    gw_flock_member *m = p->m;
    gw_job_record_id id = p->id;
    gw_reply *waiting = p->waiting;
    uint32_t waiting_count = p->waiting_count;
    p->waiting = NULL;
    p->waiting_count = 0;
    conclude(p);
    for (uint32_t i = 0; i < waiting_count; i++) {
        if (atomic_load(&m->closing))
            gw_member_refuse(m, &waiting[i], "this member ends");
        else
            gw_member_bring(m, &waiting[i], &id);
    }
    free(waiting);
}

/* The other members, those first that a hash of the job and of each puts first: so that not all ask the same one. */
typedef struct ranked {
    gw_peer_id id;
    uint64_t rank;
} ranked;

static int compare_ranked(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    return x->rank < y->rank ? 1 : x->rank > y->rank ? -1 : memcmp(&x->id, &y->id, sizeof x->id);
}

uint64_t gw_member_rank(const gw_peer_id *peer, const void *what) {
    gw_reader p = gw_reader_on(peer->bytes, sizeof peer->bytes), w = gw_reader_on(what, 8);
    return gw_mix64(gw_get_u64(&p) ^ gw_mix64(gw_get_u64(&w)));
}

static void choose_peers(gw_preparation *p) {
    const gw_flock_member *m = p->m;
    uint32_t count = gw_gossip_count(m->gossip);
    const void *what = p->purpose == START || p->purpose == BRING ? p->id.bytes : p->files.bytes;
    ranked *list = calloc(count + 1, sizeof *list);
    p->peers = calloc(count + 2, sizeof *p->peers);
    GW_ASSERT_MEMORY(list != NULL && p->peers != NULL);
    for (uint32_t i = 0; i < count; i++) {
        const gw_peer_id *id = &gw_gossip_at(m->gossip, i)->id;
        if (gw_peer_id_equal(id, &m->identity.id) || !gw_member_is_live(m, id)) continue;
        list[p->peer_count++] = (ranked){*id, gw_member_rank(id, what)};
    }
    qsort(list, p->peer_count, sizeof *list, compare_ranked);
    for (uint32_t i = 0; i < p->peer_count; i++) p->peers[i + p->adopts] = list[i].id;
    if (p->adopts) {
        p->peers[0] = m->identity.id;
        p->peer_count++;
    }
    free(list);
}

/* Begins a preparation, which takes what `like` owns. NULL: it cannot be begun, and `like` is the caller's. */
static gw_preparation *begin(gw_flock_member *m, const gw_preparation *like, gw_err *err) {
    if (m->preparation_count == GW_MEMBER_PREPARATIONS) {
        gw_fail(err, GW_E_LIMIT, "this node is busy with the files of other jobs: try again");
        return NULL;
    }
    gw_preparation *p = calloc(1, sizeof *p);
    GW_ASSERT_MEMORY(p != NULL);
    *p = *like;
    p->thread = gw_helper_open("flock-prepare", err);
    if (p->thread == NULL) {
        free(p);
        return NULL;
    }
    p->began_ns = gw_now_ns();
    if (p->peers == NULL) choose_peers(p);
    m->preparations[m->preparation_count++] = p;
    gw_helper_give(p->thread, run, p);
    return p;
}

/* Starting a child. */

bool gw_member_is_claimed_elsewhere(const gw_flock_member *m, const gw_job_record_id *id,
                                    gw_claim_state state) {
    for (uint32_t i = 0; i < gw_exchange_claims_count(m->exchange); i++) {
        const gw_claims *list = gw_exchange_claims_at(m->exchange, i);
        const gw_claim *claim = list->boot != 0 ? gw_claims_find(list, id) : NULL;
        if (claim != NULL && claim->state == state && !gw_peer_id_equal(&list->member, &m->identity.id) &&
            gw_member_is_live(m, &list->member))
            return true;
    }
    return false;
}

static gw_preparation *find_start(const gw_flock_member *m, const gw_job_record_id *id) {
    for (uint32_t i = 0; i < m->preparation_count; i++)
        if (m->preparations[i]->purpose == START && gw_job_record_id_equal(&m->preparations[i]->id, id))
            return m->preparations[i];
    return NULL;
}

/* The highest step of which checkpoints of the job, or of one that it goes on from, are known to have been. */
static uint64_t saved_of(const gw_flock_member *m, const gw_job_record_id *id) {
    gw_job_record_id line[GW_MEMBER_LINE];
    uint32_t count = gw_member_line_of(m, id, line);
    for (uint32_t i = 0; i < count; i++) {
        const gw_job_record *record = gw_job_records_find(m->records, &line[i]);
        if (record != NULL && record->saved > 0) return record->saved;
    }
    return 0;
}

/* Whether this member has waited long enough for nodes that have a checkpoint of the job. */
static bool gives_up_waiting(const gw_flock_member *m, const gw_job_record_id *id) {
    for (uint32_t i = 0; i < GW_MEMBER_MISSED; i++) {
        const gw_member_missed *one = &m->missed[i];
        if (one->since_ns != 0 && gw_job_record_id_equal(&one->id, id))
            return gw_now_ns() > one->since_ns + m->options->gate_ns;
    }
    return false;
}

/* A job's checkpoint was not to be had. */
static void note_missed(gw_flock_member *m, const gw_job_record_id *id) {
    for (uint32_t i = 0; i < GW_MEMBER_MISSED; i++)
        if (m->missed[i].since_ns != 0 && gw_job_record_id_equal(&m->missed[i].id, id)) return;
    m->missed[m->missed_at] = (gw_member_missed){*id, gw_now_ns()};
    m->missed_at = (m->missed_at + 1) % GW_MEMBER_MISSED;
}

static bool begin_start(gw_flock_member *m, const gw_do *action, bool runs_elsewhere, gw_err *err) {
    const gw_job_spec *spec = action->spec;
    gw_preparation like = {.m = m, .purpose = START, .id = action->job, .files = spec->files};
    if (!gw_children_folder(m->children, &action->job, like.folder, err)) return false;
    memcpy(like.token, spec->token, sizeof like.token);
    like.adopts = !is_none(spec->adopts.bytes, sizeof spec->adopts.bytes);
    like.line_count = gw_member_line_of(m, &action->job, like.line);
    if (!gives_up_waiting(m, &action->job)) like.least_step = saved_of(m, &action->job);
    like.wants_checkpoint = spec->kind == GW_JOB_RUN;
    like.runs_elsewhere = runs_elsewhere;
    like.is_map = spec->kind == GW_JOB_MAP;
    like.directory = spec->directory != NULL ? strdup(spec->directory) : NULL;
    GW_ASSERT_MEMORY(spec->directory == NULL || like.directory != NULL);
    if (begin(m, &like, err) != NULL) return true;
    free(like.directory);
    return false;
}

gw_prepared gw_member_prepare(gw_flock_member *m, const gw_do *action, char directory[GW_PATH_BYTES],
                              gw_err *err) {
    gw_preparation *p = find_start(m, &action->job);
    bool runs_elsewhere = gw_member_is_claimed_elsewhere(m, &action->job, GW_CLAIM_RUNNING);
    if (gw_member_is_preparing(m, &action->job))
        return GW_PREPARING; /* a copy of its checkpoint may be on its way */
    if (p == NULL) {
        /* A child that leaves another node saves a checkpoint, or has begun what is not to be done twice at once. */
        if (!runs_elsewhere && gw_member_is_claimed_elsewhere(m, &action->job, GW_CLAIM_LEAVING))
            return GW_PREPARING;
        if (!begin_start(m, action, runs_elsewhere, err))
            return err->code == GW_E_LIMIT ? GW_PREPARING : GW_UNPREPARED;
        return GW_PREPARING;
    }
    if (p->runs_elsewhere && !runs_elsewhere) { /* who ran it may have left with a newer checkpoint since */
        drop(p);
        gw_member_decide_soon(m);
        return GW_PREPARING;
    }
    bool fresh = gw_now_ns() < p->finished_ns + KEEP_NS;
    gw_prepared outcome = !fresh ? GW_PREPARING : p->good ? GW_PREPARED : GW_UNPREPARED;
    if (fresh && p->good) {
        snprintf(directory, GW_PATH_BYTES, "%s", p->in_directory ? p->directory : "");
        if (p->step < saved_of(m, &action->job) && !p->runs_elsewhere)
            gw_log(GW_WARN, "flock",
                   "%s: nobody came back who has its checkpoint of step %llu for as long as --gate says: it "
                   "goes on without",
                   action->spec->name, (unsigned long long)saved_of(m, &action->job));
        if (p->step > 0)
            gw_log(GW_INFO, "flock", "%s goes on here from the checkpoint of step %llu", action->spec->name,
                   (unsigned long long)p->step);
    } else if (fresh) {
        *err = p->err;
        if (err->code == GW_E_NOTFOUND) note_missed(m, &action->job);
        if (err->code == GW_E_INVALID || err->code == GW_E_UNSUPPORTED || err->code == GW_E_USAGE)
            outcome = GW_UNFIT;
    }
    drop(p);
    if (!fresh) gw_member_decide_soon(m);
    return outcome;
}

/* Files of submissions. */

void gw_member_check_files(gw_flock_member *m, const gw_reply *reply, const gw_job_record *record,
                           const gw_hash *files) {
    gw_preparation like = {.m = m, .purpose = CHECK, .id = record->id, .files = *files, .reply = *reply};
    gw_err err;
    like.record = gw_job_record_copy(record);
    if (begin(m, &like, &err) != NULL) return;
    gw_job_record_free(&like.record);
    gw_member_refuse(m, reply, err.text);
}

void gw_member_hold_files(gw_flock_member *m, const gw_reply *reply, const gw_hash *files) {
    gw_preparation like = {.m = m, .purpose = HOLD, .files = *files, .unasked = reply == NULL};
    gw_err err;
    if (reply != NULL) {
        like.reply = *reply;
        like.peer_count = 1;
        like.peers = malloc(sizeof *like.peers);
        GW_ASSERT_MEMORY(like.peers != NULL);
        like.peers[0] = reply->peer; /* who asks for it has them */
    }
    if (begin(m, &like, &err) != NULL) return;
    free(like.peers);
    if (reply != NULL) gw_member_refuse(m, reply, err.text);
}

/* Checkpoints. */

static gw_preparation *find_at_work(const gw_flock_member *m, const gw_job_record_id *id, bool entrusts) {
    for (uint32_t i = 0; i < m->preparation_count; i++) {
        gw_preparation *p = m->preparations[i];
        bool meant = entrusts ? p->purpose == ENTRUST
                              : p->purpose == START || p->purpose == KEEP || p->purpose == BRING;
        if (meant && p->finished_ns == 0 && gw_job_record_id_equal(&p->id, id)) return p;
    }
    return NULL;
}

bool gw_member_is_preparing(const gw_flock_member *m, const gw_job_record_id *id) {
    return find_at_work(m, id, false) != NULL;
}

bool gw_member_is_entrusting(const gw_flock_member *m, const gw_job_record_id *id) {
    return find_at_work(m, id, true) != NULL;
}

void gw_member_prepare_tidy(gw_flock_member *m) {
    for (uint32_t i = m->preparation_count; i-- > 0;) {
        gw_preparation *p = m->preparations[i];
        if (p->finished_ns != 0 && gw_now_ns() > p->finished_ns + KEEP_NS) drop(p);
    }
}

/* Begins to hand a job's checkpoint to another member, or to take it from one; NULL: from nobody. */
static bool begin_checkpoint(gw_flock_member *m, const gw_job_record_id *id, gw_preparation *like,
                             const gw_peer_id *peer, gw_err *err) {
    if (!gw_children_folder(m->children, id, like->folder, err)) return false;
    like->peers = malloc(sizeof *like->peers);
    GW_ASSERT_MEMORY(like->peers != NULL);
    if (peer != NULL) like->peers[like->peer_count++] = *peer;
    if (begin(m, like, err) != NULL) return true;
    free(like->peers);
    return false;
}

void gw_member_entrust(gw_flock_member *m, const gw_job_record_id *id, const gw_peer_id *peer,
                       uint64_t step) {
    gw_preparation like = {.m = m, .purpose = ENTRUST, .id = *id, .step = step};
    gw_err err;
    if (!begin_checkpoint(m, id, &like, peer, &err)) gw_log(GW_DEBUG, "flock", "%s", err.text);
}

void gw_member_keep(gw_flock_member *m, const gw_reply *reply, const gw_job_record_id *id) {
    gw_preparation like = {.m = m, .purpose = KEEP, .id = *id, .reply = *reply};
    gw_err err;
    if (gw_children_find(m->children, id) != NULL || gw_member_is_preparing(m, id))
        gw_member_refuse(m, reply, "the job is about to run here, or its checkpoint is on its way");
    else if (!begin_checkpoint(m, id, &like, &reply->peer, &err))
        gw_member_refuse(m, reply, err.text);
}

void gw_member_bring(gw_flock_member *m, const gw_reply *reply, const gw_job_record_id *id) {
    gw_preparation like = {.m = m, .purpose = BRING, .id = *id, .reply = *reply, .adopts = true};
    gw_preparation *before = find_at_work(m, id, false);
    gw_err err;
    if (before != NULL) { /* two that write to one folder would be in each other's way */
        before->waiting = realloc(before->waiting, (before->waiting_count + 1) * sizeof *before->waiting);
        GW_ASSERT_MEMORY(before->waiting != NULL);
        before->waiting[before->waiting_count++] = *reply;
        return;
    }
    bool good = gw_children_folder(m->children, id, like.folder, &err);
    if (good && gw_children_find(m->children, id) != NULL) { /* it is here, or will soon be */
        json_t *object = json_object();
        put_state(object, like.folder);
        gw_member_answer(m, reply, object, NULL, 0);
        return;
    }
    if (!good || begin(m, &like, &err) == NULL) gw_member_refuse(m, reply, err.text);
}

/* The member that is first, by a hash of it and the job, of the others that can keep something. */
bool gw_member_first_other(const gw_flock_member *m, const gw_job_record_id *id, gw_peer_id *peer) {
    uint64_t highest = 0;
    bool any = false;
    for (uint32_t i = 0; i < gw_exchange_claims_count(m->exchange); i++) {
        const gw_claims *list = gw_exchange_claims_at(m->exchange, i);
        uint64_t rank = gw_member_rank(&list->member, id->bytes);
        if (list->boot == 0 || list->disk_bad || gw_peer_id_equal(&list->member, &m->identity.id) ||
            !gw_member_is_live(m, &list->member) || (any && rank <= highest))
            continue;
        *peer = list->member;
        highest = rank;
        any = true;
    }
    return any;
}

bool gw_member_prepare_close(gw_flock_member *m) {
    uint64_t end_ns = gw_now_ns() + WAIT_CLOSE_NS;
    atomic_store(&m->closing, true);
    gw_member_refuse_asks(m);
    for (;;) {
        uint32_t busy = 0;
        for (uint32_t i = m->preparation_count; i-- > 0;) {
            if (m->preparations[i]->finished_ns != 0)
                drop(m->preparations[i]);
            else
                busy++;
        }
        if (busy == 0) return true;
        if (gw_now_ns() >= end_ns) return false;
        gw_loop_turn(m->loop, end_ns - gw_now_ns());
    }
}
