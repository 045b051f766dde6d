#include "tools/godwit/text/json.h"
#include "tools/godwit/command/inspect/show.h"

static json_t *summary(const gw_manifest *m) {
    json_t *object = json_object();
    gw_json_step(object, "step", m->step);
    gw_json_text(object, "job", m->job_name);
    gw_json_hash(object, "job_id", &m->job_id);
    gw_json_hash(object, "state", &m->root);
    gw_json_count(object, "state_bytes", m->state_bytes);
    gw_json_u64(object, "fingerprint", m->fingerprint);
    gw_json_count(object, "created_ms", m->created_ms);
    gw_json_count(object, "chunks", m->chunk_count);
    gw_json_count(object, "view_number", m->epoch);
    if (m->best_by[0] != '\0') {
        json_t *best = json_object();
        double value;
        const gw_checkpoint_ref one = gw_manifest_best(m, &value);
        gw_json_text(best, "by", m->best_by);
        gw_json_step(best, "step", one.step > 0 ? one.step : UINT64_MAX);
        if (one.step > 0) gw_json_real(best, "value", value);
        gw_json_count(best, "evaluations_since", m->best.waited);
        json_object_set_new(object, "best_state", best);
    }
    return object;
}

json_t *gw_inspect_json_catalog(const char *where, const gw_catalog *catalog, const uint32_t *here) {
    json_t *object = json_object(), *good = json_array(), *bad = json_array();
    gw_json_text(object, "dir", where);
    for (uint32_t i = 0; i < catalog->good_count; i++) {
        json_t *one = summary(&catalog->good[i]);
        gw_json_count(one, "chunks_here", here[i]);
        const char *by;
        double value;
        gw_json_flag(one, "best", gw_catalog_is_best(catalog, &catalog->good[i], &by, &value));
        json_array_append_new(good, one);
    }
    for (uint32_t i = 0; i < catalog->bad_count; i++) {
        json_t *one = json_object();
        gw_json_text(one, "path", catalog->bad[i].path);
        gw_json_text(one, "error", catalog->bad[i].err.text);
        json_array_append_new(bad, one);
    }
    json_object_set_new(object, "checkpoints", good);
    json_object_set_new(object, "damaged_manifests", bad);
    return object;
}

static json_t *tensor_json(const gw_inspect_report *report, uint32_t index) {
    const gw_tensor *tensor = &report->manifest->tensors[index];
    const gw_inspect_norm *norm = &report->norms[index];
    json_t *object = json_object(), *shape = json_array();
    for (uint32_t d = 0; d < tensor->rank; d++)
        json_array_append_new(shape, json_integer((json_int_t)tensor->dim[d]));
    gw_json_text(object, "name", tensor->name);
    gw_json_text(object, "dtype", gw_dtype_name(tensor->dtype));
    json_object_set_new(object, "shape", shape);
    gw_json_count(object, "group", tensor->group);
    gw_json_count(object, "offset", gw_manifest_offset(report->manifest, index));
    if (norm->absent == 0)
        gw_json_real(object, "norm", norm->norm);
    else
        json_object_set_new(object, "norm", json_null());
    gw_json_count(object, "chunks_absent", norm->absent);
    return object;
}

/* The peers that have a chunk, or should have it. */
static json_t *holders_of(const gw_inspect_report *report, uint32_t chunk) {
    json_t *list = json_array();
    for (uint32_t i = 0; report->from != NULL && i < report->from->holders.count; i++) {
        const gw_service_holder *holder = &report->from->holders.list[i];
        char id[GW_ID_TEXT];
        gw_hex(holder->id.bytes, sizeof holder->id.bytes, id);
        if (gw_holder_has(holder, chunk)) json_array_append_new(list, json_string(id));
    }
    return list;
}

static json_t *absent_chunks(const gw_inspect_report *report) {
    static const char *const names[] = {
        [GW_CHUNK_OTHERS] = "held by others", [GW_CHUNK_MISSING] = "missing", [GW_CHUNK_DAMAGED] = "damaged"};
    json_t *list = json_array();
    for (uint32_t i = 0; i < report->manifest->chunk_count; i++) {
        if (report->status[i] == GW_CHUNK_HELD) continue;
        json_t *one = json_object();
        gw_json_count(one, "index", i);
        gw_json_hash(one, "name", &report->manifest->chunks[i]);
        gw_json_text(one, "status", names[report->status[i]]);
        json_object_set_new(one, "holders", holders_of(report, i));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *peers_json(const gw_inspect_others *from) {
    static const char *const known[] = {
        [GW_HOLDER_KNOWN] = "answers", [GW_HOLDER_UNKNOWN] = "does not tell", [GW_HOLDER_SILENT] = "silent"};
    json_t *list = json_array();
    for (uint32_t i = 0; from != NULL && i < from->holders.count; i++) {
        const gw_service_holder *holder = &from->holders.list[i];
        json_t *one = json_object();
        char id[GW_ID_TEXT], addr[GW_ADDR_TEXT];
        gw_hex(holder->id.bytes, sizeof holder->id.bytes, id);
        gw_json_text(one, "id", id);
        gw_json_text(one, "name", holder->name);
        gw_json_text(one, "address", gw_addr_text(&holder->addr, addr));
        gw_json_text(one, "state", from->asked ? known[holder->knowledge] : "not asked");
        gw_json_count(one, "chunks", gw_set_count(&holder->chunks));
        json_array_append_new(list, one);
    }
    return list;
}

json_t *gw_inspect_json_report(const gw_inspect_report *report) {
    const gw_manifest *m = report->manifest;
    json_t *object = summary(m), *params = json_object(), *tensors = json_array();
    for (uint32_t i = 0; i < m->param_count; i++) gw_json_text(params, m->params[i].name, m->params[i].value);
    for (uint32_t i = 0; i < m->tensor_count; i++) json_array_append_new(tensors, tensor_json(report, i));
    json_object_set_new(object, "parameters", params);
    if (report->command != NULL) gw_json_text(object, "command", report->command);
    json_object_set_new(object, "tensors", tensors);
    gw_json_count(object, "held", report->held);
    gw_json_count(object, "held_by_others", report->others);
    gw_json_count(object, "missing", report->missing);
    gw_json_count(object, "damaged", report->damaged);
    json_object_set_new(object, "absent", absent_chunks(report));
    json_object_set_new(object, "peers", peers_json(report->from));
    return object;
}
