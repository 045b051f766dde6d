#include "tools/godwit/energy/record.h"

#include "core/base/assert.h"
#include "core/base/hex.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LINE  "godwit-energy 1"
#define JOULES_MOST 1e18 /* no job takes more */

gw_energy_job *gw_energy_record_job(gw_energy_record *record, const gw_hash *id) {
    gw_energy_job job = {.id = *id};
    uint32_t kept = 0;
    for (uint32_t i = 0; i < record->count; i++) {
        if (gw_hash_equal(&record->jobs[i].id, id))
            job = record->jobs[i];
        else
            record->jobs[kept++] = record->jobs[i];
    }
    if (kept == GW_ENERGY_JOBS) memmove(record->jobs, record->jobs + 1, --kept * sizeof job);
    record->jobs[kept] = job;
    record->count = kept + 1;
    return &record->jobs[kept];
}

size_t gw_energy_record_write(const gw_energy_record *record, char text[GW_ENERGY_RECORD_BYTES]) {
    size_t length = (size_t)snprintf(text, GW_ENERGY_RECORD_BYTES, FIRST_LINE "\n");
    for (uint32_t i = 0; i < record->count; i++) {
        char id[GW_HASH_TEXT];
        gw_hex(record->jobs[i].id.bytes, sizeof record->jobs[i].id.bytes, id);
        length += (size_t)snprintf(text + length, GW_ENERGY_RECORD_BYTES - length, "%s", id);
        for (int s = GW_ENERGY_NONE + 1; s < GW_ENERGY_SOURCES; s++)
            if (record->jobs[i].joules[s] > 0)
                length +=
                    (size_t)snprintf(text + length, GW_ENERGY_RECORD_BYTES - length, " %s %.9g",
                                     gw_energy_source_name((gw_energy_source)s), record->jobs[i].joules[s]);
        length += (size_t)snprintf(text + length, GW_ENERGY_RECORD_BYTES - length, "\n");
    }
    GW_ASSERT(length < GW_ENERGY_RECORD_BYTES);
    return length;
}

static bool read_id(const char *word, gw_hash *id) {
    return gw_unhex(word, id->bytes, sizeof id->bytes);
}

static bool read_joules(const char *name, const char *number, gw_energy_job *job) {
    for (int s = GW_ENERGY_NONE + 1; s < GW_ENERGY_SOURCES; s++) {
        if (strcmp(name, gw_energy_source_name((gw_energy_source)s)) != 0) continue;
        char *end;
        double joules = strtod(number, &end);
        bool plain = strspn(number, "0123456789.e+-") == strlen(number) && *end == '\0';
        if (!plain || job->joules[s] != 0 || !(joules > 0 && joules < JOULES_MOST)) return false;
        job->joules[s] = joules;
        return true;
    }
    return false;
}

static bool read_job(char *line, gw_energy_job *job) {
    char *rest = line, *word = strsep(&rest, " ");
    *job = (gw_energy_job){.joules = {0}};
    if (!read_id(word, &job->id)) return false;
    while (rest != NULL) {
        const char *name = strsep(&rest, " "), *number = rest != NULL ? strsep(&rest, " ") : "";
        if (number[0] == '\0' || !read_joules(name, number, job)) return false;
    }
    return true;
}

static bool has_job(const gw_energy_record *record, const gw_hash *id) {
    for (uint32_t i = 0; i < record->count; i++)
        if (gw_hash_equal(&record->jobs[i].id, id)) return true;
    return false;
}

bool gw_energy_record_read(const char *text, size_t length, gw_energy_record *record, gw_err *err) {
    char copy[GW_ENERGY_RECORD_BYTES];
    unsigned number = 0;
    record->count = 0;
    bool good =
        length > 0 && length < sizeof copy && text[length - 1] == '\n' && memchr(text, '\0', length) == NULL;
    if (good) {
        memcpy(copy, text, length);
        copy[length - 1] = '\0';
    }
    for (char *rest = copy; good && rest != NULL;) {
        char *line = strsep(&rest, "\n");
        if (++number == 1) {
            good = strcmp(line, FIRST_LINE) == 0;
            continue;
        }
        gw_energy_job job;
        good = record->count < GW_ENERGY_JOBS && read_job(line, &job) && !has_job(record, &job.id);
        if (good) record->jobs[record->count++] = job;
    }
    if (good) return true;
    record->count = 0;
    return gw_fail(err, GW_E_INVALID, "line %u is no line of such a file", number > 0 ? number : 1);
}
