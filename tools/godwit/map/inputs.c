#define PCRE2_CODE_UNIT_WIDTH 8
#include "tools/godwit/map/inputs.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* Texts that are collected, in growing arrays. */
typedef struct texts {
    const char **text;
    size_t *length;
    uint32_t count, room;
} texts;

/* Records that are kept: of each the inputs of the sources of a group. */
typedef struct records {
    gw_map_values **list;
    uint64_t count, room;
} records;

/* Sources that go on together. */
typedef struct group {
    uint32_t from, to; /* of the sources */
    records kept;      /* all records, where they are kept */
    uint64_t place;    /* of the record that is used */
    bool complete;
} group;

struct gw_map_inputs {
    gw_map_source sources[GW_MAP_SOURCES_MOST];
    uint32_t source_count;
    group groups[GW_MAP_SOURCES_MOST];
    uint32_t group_count;
    bool link, whole;
    uint32_t most;
    pcre2_code *column;
    pcre2_match_data *match;
    gw_map_values *first; /* the record of the first group that is combined with those of the others */
    texts scratch;
    records batch; /* with -N: the records of the next task so far */
    int waits_for;
    uint64_t given; /* tasks whose inputs have been given */
    bool ended;
};

static gw_map_next no_memory(gw_err *err) {
    gw_fail(err, GW_E_NOMEM, "no memory for the inputs");
    return GW_MAP_NEXT_FAILED;
}

static bool add_text(texts *t, const char *text, size_t length) {
    if (t->count == t->room) {
        uint32_t room = t->room > 0 ? 2 * t->room : 16;
        const char **list = realloc(t->text, room * sizeof(char *));
        if (list != NULL) t->text = list;
        size_t *lengths = realloc(t->length, room * sizeof *lengths);
        if (lengths != NULL) t->length = lengths;
        if (list == NULL || lengths == NULL) return false;
        t->room = room;
    }
    t->text[t->count] = text;
    t->length[t->count++] = length;
    return true;
}

static bool add_record(records *r, gw_map_values *values) {
    if (values == NULL) return false;
    if (r->count == r->room) {
        uint64_t room = r->room > 0 ? 2 * r->room : 64;
        gw_map_values **list = realloc(r->list, room * sizeof(gw_map_values *));
        if (list == NULL) {
            free(values);
            return false;
        }
        r->list = list;
        r->room = room;
    }
    r->list[r->count++] = values;
    return true;
}

static void clear(records *r) {
    for (uint64_t i = 0; i < r->count; i++) free(r->list[i]);
    r->count = 0;
}

/* Opening. */

static bool compile_column(gw_map_inputs *in, const char *expression, gw_err *err) {
    int number;
    PCRE2_SIZE at;
    in->column = pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED, 0, &number, &at, NULL);
    if (in->column == NULL) {
        PCRE2_UCHAR text[200] = "";
        pcre2_get_error_message(number, text, sizeof text);
        return gw_fail(err, GW_E_USAGE, "--colsep: '%s' is no regular expression: %s", expression,
                       (char *)text);
    }
    in->match = pcre2_match_data_create_from_pattern(in->column, NULL);
    return in->match != NULL || gw_fail(err, GW_E_NOMEM, "no memory for the inputs");
}

gw_map_inputs *gw_map_inputs_open(const gw_map_inputs_options *o, gw_err *err) {
    if (o->source_count > GW_MAP_SOURCES_MOST) {
        gw_fail(err, GW_E_USAGE, "there are %u input sources; at most %d are read", o->source_count,
                GW_MAP_SOURCES_MOST);
        return NULL;
    }
    gw_map_inputs *in = calloc(1, sizeof *in);
    if (in == NULL) {
        no_memory(err);
        return NULL;
    }
    in->link = o->link;
    in->whole = o->whole;
    in->most = o->most;
    in->waits_for = -1;
    bool good = o->column == NULL || compile_column(in, o->column, err);
    for (uint32_t i = 0; good && i < o->source_count; i++) {
        const gw_map_inputs_source *s = &o->sources[i];
        if (s->words != NULL)
            in->sources[i] = gw_map_source_of_words(s->words, s->count);
        else
            good = gw_map_source_open(&in->sources[i], s->path, o->separator, err);
        in->source_count = i + 1;
        if (i == 0 || (!s->linked && !o->link))
            in->groups[in->group_count++] = (group){.from = i, .to = i + 1};
        else
            in->groups[in->group_count - 1].to = i + 1;
    }
    if (good) return in;
    gw_map_inputs_close(in);
    return NULL;
}

void gw_map_inputs_close(gw_map_inputs *in) {
    if (in == NULL) return;
    for (uint32_t i = 0; i < in->source_count; i++) gw_map_source_close(&in->sources[i]);
    for (uint32_t i = 0; i < in->group_count; i++) {
        clear(&in->groups[i].kept);
        free(in->groups[i].kept.list);
    }
    clear(&in->batch);
    free(in->batch.list);
    free(in->first);
    free(in->scratch.text);
    free(in->scratch.length);
    pcre2_match_data_free(in->match);
    pcre2_code_free(in->column);
    free(in);
}

/* Records. */

/* The next record of a group, from the sources. */
static gw_map_next next_of_group(gw_map_inputs *in, const group *g, gw_map_values **values, gw_err *err) {
    in->scratch.count = 0;
    for (uint32_t i = g->from; i < g->to; i++) {
        gw_map_next next = gw_map_source_look(&in->sources[i], err);
        if (next == GW_MAP_NEXT_LATER) in->waits_for = in->sources[i].fd;
        if (next != GW_MAP_NEXT_READY) return next;
    }
    for (uint32_t i = g->from; i < g->to; i++) {
        if (!add_text(&in->scratch, in->sources[i].text, in->sources[i].length)) return no_memory(err);
        in->sources[i].held = false;
    }
    *values = gw_map_values_make(in->scratch.count, in->scratch.text, in->scratch.length);
    return *values != NULL ? GW_MAP_NEXT_READY : no_memory(err);
}

/* Reads all records of a group. */
static gw_map_next keep_group(gw_map_inputs *in, group *g, gw_err *err) {
    while (!g->complete) {
        gw_map_values *values;
        gw_map_next next = next_of_group(in, g, &values, err);
        g->complete = next == GW_MAP_NEXT_END;
        if (next == GW_MAP_NEXT_READY && !add_record(&g->kept, values)) return no_memory(err);
        if (next == GW_MAP_NEXT_LATER || next == GW_MAP_NEXT_FAILED) return next;
    }
    return GW_MAP_NEXT_READY;
}

/* With --link each source is a group that is kept, and all go on together. */
static gw_map_next next_of_links(gw_map_inputs *in, gw_map_values **values, gw_err *err) {
    group *all = in->groups;
    uint64_t longest = 0;
    if (in->group_count == 1 && in->source_count > 1) {
        for (uint32_t i = 0; i < in->source_count; i++) all[i] = (group){.from = i, .to = i + 1};
        in->group_count = in->source_count;
    }
    for (uint32_t i = 0; i < in->group_count; i++) {
        gw_map_next next = keep_group(in, &all[i], err);
        if (next != GW_MAP_NEXT_READY) return next;
        if (all[i].kept.count > longest) longest = all[i].kept.count;
    }
    if (all[0].place == longest) return GW_MAP_NEXT_END;
    in->scratch.count = 0;
    for (uint32_t i = 0; i < in->group_count; i++) {
        const records *kept = &all[i].kept;
        const char *text = kept->count > 0 ? kept->list[all[0].place % kept->count]->text[0] : "";
        if (!add_text(&in->scratch, text, strlen(text))) return no_memory(err);
    }
    all[0].place++;
    *values = gw_map_values_make(in->scratch.count, in->scratch.text, in->scratch.length);
    return *values != NULL ? GW_MAP_NEXT_READY : no_memory(err);
}

/* Goes on to the next combination of the groups behind the first one; false: all have been. */
static bool advance(gw_map_inputs *in) {
    for (uint32_t i = in->group_count - 1; i > 0; i--) {
        if (++in->groups[i].place < in->groups[i].kept.count) return true;
        in->groups[i].place = 0;
    }
    return false;
}

/* The next record of the first group, which is the caller's. */
static gw_map_next next_of_first(gw_map_inputs *in, gw_map_values **values, gw_err *err) {
    group *first = &in->groups[0];
    if (!in->whole) return next_of_group(in, first, values, err);
    if (first->place == first->kept.count) return GW_MAP_NEXT_END;
    *values = first->kept.list[first->place];
    first->kept.list[first->place++] = NULL;
    return GW_MAP_NEXT_READY;
}

/* The next combination. */
static gw_map_next next_combination(gw_map_inputs *in, gw_map_values **values, gw_err *err) {
    for (uint32_t i = in->whole ? 0 : 1; i < in->group_count; i++) {
        gw_map_next next = keep_group(in, &in->groups[i], err);
        if (next != GW_MAP_NEXT_READY) return next;
        if (in->groups[i].kept.count == 0) return GW_MAP_NEXT_END;
    }
    if (in->group_count == 1) return next_of_first(in, values, err);
    if (in->first == NULL) {
        gw_map_next next = next_of_first(in, &in->first, err);
        if (next != GW_MAP_NEXT_READY) return next;
    }
    in->scratch.count = 0;
    for (uint32_t i = 0; i < in->group_count; i++) {
        const gw_map_values *record = i == 0 ? in->first : in->groups[i].kept.list[in->groups[i].place];
        for (uint32_t k = 0; k < record->count; k++)
            if (!add_text(&in->scratch, record->text[k], strlen(record->text[k]))) return no_memory(err);
    }
    *values = gw_map_values_make(in->scratch.count, in->scratch.text, in->scratch.length);
    if (*values == NULL) return no_memory(err);
    if (!advance(in)) {
        free(in->first);
        in->first = NULL;
    }
    return GW_MAP_NEXT_READY;
}

/* Cuts a text at each match of the expression, and adds the parts. */
static bool cut(gw_map_inputs *in, const char *text) {
    size_t length = strlen(text), from = 0, search = 0;
    while (search <= length &&
           pcre2_match(in->column, (PCRE2_SPTR)text, length, search, 0, in->match, NULL) > 0) {
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(in->match);
        if (found[1] <= found[0]) { /* an empty match cuts nothing */
            search = found[0] + 1;
            continue;
        }
        if (!add_text(&in->scratch, text + from, found[0] - from)) return false;
        from = search = found[1];
    }
    return add_text(&in->scratch, text + from, length - from);
}

/* Makes one record of several, and cuts columns; it consumes the batch. */
static gw_map_values *unite(gw_map_inputs *in) {
    bool good = true;
    in->scratch.count = 0;
    for (uint64_t i = 0; i < in->batch.count; i++)
        for (uint32_t k = 0; good && k < in->batch.list[i]->count; k++) {
            const char *text = in->batch.list[i]->text[k];
            good = in->column != NULL ? cut(in, text) : add_text(&in->scratch, text, strlen(text));
        }
    if (in->most == 0) in->scratch.count = 0;
    gw_map_values *values =
        good ? gw_map_values_make(in->scratch.count, in->scratch.text, in->scratch.length) : NULL;
    clear(&in->batch);
    return values;
}

gw_map_next gw_map_inputs_next(gw_map_inputs *in, gw_map_values **values, gw_err *err) {
    const uint32_t most = in->most > 0 ? in->most : 1;
    for (;;) {
        gw_map_values *record = NULL; /* whole only after GW_MAP_NEXT_READY */
        gw_map_next next = in->ended  ? GW_MAP_NEXT_END
                           : in->link ? next_of_links(in, &record, err)
                                      : next_combination(in, &record, err);
        if (next == GW_MAP_NEXT_LATER || next == GW_MAP_NEXT_FAILED) return next;
        if (next == GW_MAP_NEXT_END) {
            in->ended = true;
            if (in->batch.count == 0) return GW_MAP_NEXT_END;
        } else if (in->most == 1 && in->column == NULL) {
            in->given++;
            *values = record;
            return GW_MAP_NEXT_READY;
        } else if (!add_record(&in->batch, record)) {
            return no_memory(err);
        }
        if (in->batch.count < most && !in->ended) continue;
        *values = unite(in);
        if (*values == NULL) return no_memory(err);
        in->given++;
        return GW_MAP_NEXT_READY;
    }
}

int gw_map_inputs_fd(const gw_map_inputs *in) {
    return in->waits_for;
}

bool gw_map_inputs_total(const gw_map_inputs *in, uint64_t *total) {
    const uint64_t most = in->most > 0 ? in->most : 1;
    uint64_t tasks = 1, longest = 0;
    *total = in->given;
    if (in->ended) return true;
    for (uint32_t i = 0; i < in->group_count; i++) {
        uint64_t count = in->groups[i].kept.count;
        if (!in->groups[i].complete || __builtin_mul_overflow(tasks, count, &tasks)) return false;
        if (count > longest) longest = count;
    }
    if (in->link) tasks = longest;
    *total = tasks / most + (tasks % most != 0);
    return true;
}
