#include "kernels/jobs/program/program.h"

#include "core/os/durable.h"
#include "kernels/device/class.h"
#include "kernels/jobs/program/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const gw_option options[] = {
    {"program", "FILE", NULL, "the program: a Python script, or an executable file", true},
    {"python", "FILE", NULL,
     "the Python that runs a script (default: the one that godwit was installed with, or python3)", true},
    {"args", "TEXT", NULL,
     "arguments of the program, separated by spaces; what follows -- on the command line is appended", false},
    {"threads", "N", "1", "threads with which a worker computes", false},
    {"seed", "N", "1", "seed of first weights, of the order of samples and of random numbers", false},
    {NULL, NULL, NULL, NULL, false},
};

static const char reports_name[] = "godwit.reports";

/* Opening. */

static bool read_params(const gw_params *params, program *job, gw_err *err) {
    const char *python = gw_param_text(params, "python"), *args = gw_param_text(params, "args");
    int64_t threads, seed;
    job->file = gw_param_text(params, "program");
    if (job->file == NULL || job->file[0] == '\0')
        return gw_fail(err, GW_E_USAGE, "--program: name a Python script or an executable file");
    struct stat status;
    if (stat(job->file, &status) != 0 || access(job->file, R_OK) != 0)
        return gw_fail(err, errno == ENOENT || errno == ENOTDIR || errno == EACCES ? GW_E_USAGE : GW_E_IO,
                       "the program %s cannot be read: %s", job->file, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return gw_fail(err, GW_E_USAGE,
                       "the program %s is no file: name a Python script or an executable file", job->file);
    if (!gw_param_integer(params, "threads", 1, GW_PROGRAM_THREADS_MOST, false, &threads, err) ||
        !gw_param_integer(params, "seed", 0, INT64_MAX, false, &seed, err))
        return false;
    job->threads = (uint32_t)threads;
    job->seed = (uint64_t)seed;
    return program_command_make(&job->command, job->file, python, args, job->threads, err);
}

static bool add_tensor(program *job, const gw_program_array *array, gw_err *err) {
    const gw_program_tensor *t = &array->is;
    uint32_t number = job->tensor_count;
    char *name = strndup(t->name.bytes, t->name.length);
    if (name == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the program's tensors");
    job->names[number] = name;
    gw_tensor *to = &job->tensors[job->tensor_count++];
    *to = (gw_tensor){.name = name,
                      .dtype = t->role == GW_STATE ? (gw_dtype)t->dtype : GW_F32,
                      .role = t->role,
                      .rank = t->rank,
                      .group = number,
                      .frac_bits = t->frac_bits,
                      .apply_only = t->role == GW_STATE && (t->flags & GW_PROGRAM_APPLY_ONLY) != 0};
    memcpy(to->dim, t->dim, sizeof to->dim);
    if (t->rank == 0) { /* a scalar */
        to->rank = 1;
        to->dim[0] = 1;
    }
    return true;
}

/* The bytes of the reports in the state, rounded up to what aligned_alloc takes. */
static size_t reports_bytes(const program *job) {
    size_t bytes = 2 * (size_t)job->report_count * sizeof(double);
    return (bytes + GW_PROGRAM_ALIGN - 1) / GW_PROGRAM_ALIGN * GW_PROGRAM_ALIGN;
}

static bool list_tensors(program *job, gw_err *err) {
    const gw_program_description *d = &job->description;
    job->tensors = calloc(d->array_count + 1, sizeof *job->tensors);
    job->names = calloc(d->array_count + 1, sizeof *job->names);
    if (job->tensors == NULL || job->names == NULL)
        return gw_fail(err, GW_E_NOMEM, "no memory for the program's tensors");
    for (uint32_t i = 0; i < d->array_count; i++)
        if (!add_tensor(job, &d->arrays[i], err)) return false;
    for (uint32_t s = 0; s < d->sum_count; s++)
        if ((gw_program_sum(d, s)->is.flags & GW_PROGRAM_REPORT) != 0) job->reports[job->report_count++] = s;
    if (job->report_count == 0) return true;
    job->tensors[job->tensor_count++] = (gw_tensor){.name = reports_name,
                                                    .dtype = GW_F64,
                                                    .role = GW_STATE,
                                                    .rank = 1,
                                                    .dim = {2 * (uint64_t)job->report_count},
                                                    .group = d->array_count,
                                                    .apply_only = true};
    job->report_values = calloc(2 * (size_t)job->report_count, sizeof *job->report_values);
    job->last_reports = aligned_alloc(GW_PROGRAM_ALIGN, reports_bytes(job));
    if (job->report_values == NULL || job->last_reports == NULL)
        return gw_fail(err, GW_E_NOMEM, "no memory for reports");
    memset(job->last_reports, 0, reports_bytes(job));
    return true;
}

/* The order of two sums by their parts; a sum is given by its part, above its number. */
static int compare_parts(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Lists what an update looks for in every part. */
static bool order_parts(program *job, gw_err *err) {
    const gw_program_description *d = &job->description;
    uint64_t *keys = calloc((size_t)d->sum_count + 1, sizeof *keys);
    job->sum_order = calloc((size_t)d->sum_count + 1, sizeof *job->sum_order);
    job->alike_order = calloc(d->state_count, sizeof *job->alike_order);
    bool good = keys != NULL && job->sum_order != NULL && job->alike_order != NULL;
    for (uint32_t s = 0; good && s < d->sum_count; s++)
        keys[s] = (uint64_t)gw_program_sum(d, s)->is.part << 32 | s;
    if (good) qsort(keys, d->sum_count, sizeof *keys, compare_parts);
    for (uint32_t s = 0; good && s < d->sum_count; s++) job->sum_order[s] = (uint32_t)keys[s];
    for (uint32_t i = 0; good && i < d->state_count; i++)
        if (d->arrays[i].is.part == GW_PROGRAM_ALIKE) job->alike_order[job->alike_count++] = i;
    free(keys);
    return good || gw_fail(err, GW_E_NOMEM, "no memory for the parts of an update");
}

static void write_text(FILE *out, gw_program_text text) {
    fwrite(text.bytes, 1, text.length, out);
}

/* A digest of all that the program says of its tensors beyond the names and shapes of its state. */
static void digest_tensors(const gw_program_description *d, char text[GW_HASH_TEXT]) {
    uint8_t bytes[GW_PROGRAM_MESSAGE_MOST];
    gw_hash hash = {0};
    for (uint32_t i = 0; i < d->array_count; i++) {
        gw_writer w = gw_writer_on(bytes, sizeof bytes);
        gw_put_bytes(&w, hash.bytes, sizeof hash.bytes);
        gw_program_put_tensor(&w, &d->arrays[i].is);
        gw_blake2b(bytes, w.length, hash.bytes, sizeof hash.bytes);
    }
    gw_hex(hash.bytes, sizeof hash.bytes, text);
}

static bool digest_file(const char *path, char text[GW_HASH_TEXT], gw_err *err) {
    void *bytes;
    size_t length;
    gw_hash hash;
    if (!gw_durable_read(gw_io_system(), path, SIZE_MAX, &bytes, &length, err)) return false;
    gw_blake2b(bytes, length, hash.bytes, sizeof hash.bytes);
    gw_hex(hash.bytes, sizeof hash.bytes, text);
    free(bytes);
    return true;
}

/* The instructions that programs have always been told to compute with. Those of other processors are a line of
 * the identity: earlier builds let libraries choose there, which gave other bits. */
static const char widest[] = "SkylakeX";

static bool write_identity(program *job, gw_err *err) {
    const gw_program_description *d = &job->description;
    const gw_program_options *o = &d->options;
    const char *instructions = gw_cpu_class_instructions();
    char digest[GW_HASH_TEXT], code[GW_HASH_TEXT];
    size_t length;
    if (!digest_file(job->file, code, err)) return false;
    FILE *out = open_memstream(&job->identity, &length);
    if (out == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the job's identity");
    digest_tensors(d, digest);
    fprintf(out, "program=%s\n", code);
    if (instructions[0] != '\0' && strcmp(instructions, widest) != 0)
        fprintf(out, "instructions=%s\n", instructions);
    fprintf(out, "shards=%u\nupdates=%" PRIu64 "\neval-every=%" PRIu64 "\neval-shards=%u\n", o->shards,
            o->updates, o->eval_every, o->eval_shards);
    fprintf(out, "parts=%u\nclip=%.17g\nonce=%d\nonce-evaluated=%d\ntensors=%s\n", o->parts, o->clip,
            (o->flags & GW_PROGRAM_HAS_ONCE) != 0, (o->flags & GW_PROGRAM_ONCE_EVALUATED) != 0, digest);
    for (uint32_t i = 0; i < d->line_count; i++) {
        write_text(out, d->lines[i].name);
        fputc('=', out);
        write_text(out, d->lines[i].value);
        fputc('\n', out);
    }
    return fclose(out) == 0 || gw_fail(err, GW_E_NOMEM, "no memory for the job's identity");
}

static uint64_t alike_bytes(const gw_program_description *d) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < d->state_count; i++)
        if (d->arrays[i].is.part == GW_PROGRAM_ALIKE) bytes += d->arrays[i].bytes;
    return bytes;
}

static bool open_memory(program *job, gw_err *err) {
    const gw_program_description *d = &job->description;
    job->alike = malloc(alike_bytes(d) + 1);
    return (job->alike != NULL || gw_fail(err, GW_E_NOMEM, "no memory for an update")) &&
           program_arena_open(&job->state, "godwit-state", d->sizes.state_bytes, true, err) &&
           program_arena_open(&job->next, "godwit-next", d->sizes.state_bytes, false, err);
}

static void job_close(void *job_pointer) {
    program *job = job_pointer;
    gw_team_close(job->team);
    program_workers_close(job);
    if (job->alone_tie >= 0) close(job->alone_tie);
    program_keeper_close(job->keeper);
    program_arena_close(&job->state);
    program_arena_close(&job->next);
    program_arena_close(&job->initial);
    program_command_free(&job->command);
    gw_program_description_free(&job->description);
    for (uint32_t i = 0; job->names != NULL && i < job->tensor_count; i++) free(job->names[i]);
    free(job->names);
    free(job->tensors);
    free(job->identity);
    free(job->sum_order);
    free(job->alike_order);
    free(job->report_values);
    free(job->last_reports);
    free(job->alike);
    free(job->initial_hashes);
    pthread_mutex_destroy(&job->slots_lock);
    pthread_mutex_destroy(&job->lock);
    free(job);
}

/* Finds the tie of a program that has started this peer. */
static bool find_alone(program *job, gw_err *err) {
    const char *text = getenv("GODWIT_PROGRAM_FD");
    if (text == NULL) return true;
    int kind = 0;
    socklen_t size = sizeof kind;
    char *end;
    long fd = strtol(text, &end, 10);
    if (*end != '\0' || fd <= STDERR_FILENO || fd > INT_MAX ||
        getsockopt((int)fd, SOL_SOCKET, SO_TYPE, &kind, &size) != 0 || kind != SOCK_SEQPACKET)
        return gw_fail(err, GW_E_USAGE, "GODWIT_PROGRAM_FD: '%s' is no connection with a program", text);
    job->is_alone = true;
    job->alone_tie = (int)fd;
    return fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0 || gw_fail_errno(err, errno, "GODWIT_PROGRAM_FD");
}

/* Has the first process describe the job. One that somebody kills meanwhile is started anew. */
static bool describe(program *job, gw_err *err) {
    enum { TRIES_MOST = 30 };
    for (int tries = 1;; tries++) {
        program_outcome outcome = program_first_start(job, err);
        if (outcome != PROGRAM_LOST || job->first.lost_kind != GW_LOSS_KILLED || tries == TRIES_MOST)
            return outcome == PROGRAM_ANSWERED;
        gw_program_description_free(&job->description);
        gw_log(GW_WARN, program_room, "%s; it is started anew", err->text);
    }
}

static bool job_open(const gw_params *params, void **job_out, gw_err *err) {
    program *job = calloc(1, sizeof *job);
    if (job == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the job");
    pthread_mutex_init(&job->lock, NULL);
    pthread_mutex_init(&job->slots_lock, NULL);
    job->first = (program_process){.job = job, .process.fd = -1, .tie = -1};
    job->alone_tie = -1;
    bool good = read_params(params, job, err) && find_alone(job, err) &&
                (job->keeper = program_keeper_open(job->file, err)) != NULL;
    if (good && !describe(job, err)) {
        good = false;
        if (err->code == GW_E_PEER) gw_fail_in(err, "%s does not describe a job", job->file);
        program_command_explain(&job->command, err);
    }
    good = good && list_tensors(job, err) && order_parts(job, err) && write_identity(job, err) &&
           open_memory(job, err) && program_leader_open(job, err);
    if (!good) {
        job_close(job);
        return false;
    }
    *job_out = job;
    return true;
}

static void copy_line(gw_program_text text, char *to, size_t size) {
    gw_program_text_copy(text, to, size);
}

static bool job_describe(void *job_pointer, gw_plan *plan, gw_err *err) {
    const program *job = job_pointer;
    const gw_program_options *o = &job->description.options;
    (void)err; /* describing cannot fail */
    *plan = (gw_plan){.tensors = job->tensors,
                      .tensor_count = job->tensor_count,
                      .steps = gw_program_steps(o),
                      .lane_bytes = job->description.sizes.own_bytes,
                      .job_bytes = job->description.sizes.state_bytes, /* first S_0, then *next* */
                      .identity = job->identity,
                      .workers = o->workers};
    copy_line(o->data_text, plan->data_text, sizeof plan->data_text);
    copy_line(o->model_text, plan->model_text, sizeof plan->model_text);
    copy_line(o->length_text, plan->length_text, sizeof plan->length_text);
    return true;
}

/* Workers and memory. */

static bool lane_open(void *job, void **lane, gw_err *err) {
    program_slot *slot = program_slot_open(job, err);
    *lane = slot;
    if (slot == NULL) return false;
    pthread_mutex_lock(&slot->turn);
    program_outcome outcome = program_slot_ready(slot, err);
    pthread_mutex_unlock(&slot->turn);
    return outcome == PROGRAM_ANSWERED || gw_fail_in(err, "a worker of %s", ((program *)job)->file);
}

/* The slot stays until close, as the last state may still have to be shown to its process. */
static void lane_close(void *job, void *lane) {
    (void)job, (void)lane;
}

static bool place(void *job_pointer, void **data, gw_err *err) {
    program *job = job_pointer;
    const gw_program_description *d = &job->description;
    (void)err; /* the memory is there */
    for (uint32_t i = 0; i < d->state_count; i++) data[i] = (uint8_t *)job->state.bytes + d->arrays[i].at;
    if (job->report_count > 0) data[d->array_count] = job->last_reports;
    return true;
}

static bool init(void *job_pointer, const gw_range *range, const gw_state *state, gw_err *err) {
    program *job = job_pointer;
    const gw_program_description *d = &job->description;
    if (range->group >= d->array_count) {
        double *reports = state->data[d->array_count];
        for (uint64_t i = 0; i < range->count; i++) reports[range->first + i] = NAN; /* there is none yet */
        return true;
    }
    if (!program_initial_fetch(job, err)) return false;
    const gw_program_array *array = &d->arrays[range->group];
    size_t width = gw_program_dtype_bytes(array->is.dtype);
    memcpy((uint8_t *)state->data[range->group] + range->first * width,
           (const uint8_t *)job->initial.bytes + array->at + range->first * width, range->count * width);
    atomic_fetch_add(&job->generation, 1);
    return true;
}

static void state_written(void *job_pointer) {
    program *job = job_pointer;
    atomic_fetch_add(&job->generation, 1);
}

static uint32_t shards(const void *job_pointer, uint64_t step, gw_phase *phase) {
    const gw_program_options *o = &((const program *)job_pointer)->description.options;
    *phase = gw_program_place_of(o, step).phase;
    return gw_program_shards(o, *phase);
}

const gw_job_type gw_job_program = {
    .api = GW_JOB_API,
    .name = "program",
    .about = "a program in Python or another language, computed by worker processes",
    .options = options,
    .open = job_open,
    .close = job_close,
    .describe = job_describe,
    .lane_open = lane_open,
    .lane_close = lane_close,
    .place = place,
    .init = init,
    .state_written = state_written,
    .shards = shards,
    .contribute = program_contribute,
    .scalars = program_scalars,
    .apply = program_apply,
    .report = program_report,
    .summary = program_summary,
    .commit = program_commit,
    .interrupt = program_interrupt,
    .finish = program_finish,
    .samples = program_samples,
};
