/* `godwit devices` lists the GPUs and the RDMA devices of this machine, which of them a peer would use,
 * and what is missing. */
#include "net/rdma/rdma.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/devices_gpus.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/text/wrap.h"

#include <argp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    bool json, gpus;
    gw_rdma_options rdma;
} options;

/* The answer of gw_rdma_choose. */
typedef struct choice {
    bool made;
    uint32_t device, port, gid;
    gw_err err;
} choice;

static const char devices_doc[] =
    "Lists this machine's GPUs with the libraries they need, and its RDMA devices. It marks the RDMA device "
    "that 'godwit run' would use, and says what is missing. The exit code is 0 when an RDMA device can be "
    "used; with --gpus, when a GPU can.";

static const struct argp_option devices_options[] = {
    {"json", 'j', NULL, 0, "Print one JSON object", 0},
    {"gpus", 'G', NULL, 0, "List GPUs only", 0},
    {"rdma-device", 'd', "NAME", 0, "Choose this device", 0},
    {"gid-index", 'g', "N", 0, "Choose this GID", 0},
    {0},
};

static error_t parse_devices(int key, char *arg, struct argp_state *state) {
    options *o = state->input;
    switch (key) {
    case 'j':
        o->json = true;
        return 0;
    case 'G':
        o->gpus = true;
        return 0;
    case 'd':
        o->rdma.device = arg;
        return 0;
    case 'g':
        o->rdma.gid_chosen = true;
        o->rdma.gid_index = (uint32_t)gw_number_of_option(state, "--gid-index", arg, 0, 65535);
        return 0;
    case ARGP_KEY_ARG:
        gw_argp_error(state, "unexpected argument '%s'", arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char *gid_text(const gw_rdma_gid *gid, char text[INET6_ADDRSTRLEN]) {
    if (gid->ipv4) return inet_ntop(AF_INET, gid->bytes + 12, text, INET6_ADDRSTRLEN);
    return inet_ntop(AF_INET6, gid->bytes, text, INET6_ADDRSTRLEN);
}

/* Text for people, at most 80 columns wide. */

static void print_port(const gw_rdma_port *port, const choice *chosen, bool here) {
    char text[INET6_ADDRSTRLEN];
    printf("  port %u: %s, %s, MTU %u\n", port->number, port->state, port->link, port->mtu_bytes);
    for (uint32_t g = 0; g < port->gid_count; g++) {
        const gw_rdma_gid *gid = &port->gids[g];
        printf("  %c GID %-3u %-10s %-15s %s\n", here && chosen->gid == g ? '*' : ' ', gid->index,
               gw_rdma_gid_type_name(gid->type), gid->netdev, gid_text(gid, text));
    }
}

static void print_device(const gw_rdma_info *info, const choice *chosen, bool here) {
    printf("%s\n", info->name);
    if (!info->opened) {
        gw_print_wrapped("  ", info->trouble.text);
        return;
    }
    printf("  atomics: %s; READs and atomics in flight: %u out, %u in\n", info->atomics, info->reads_out,
           info->reads_in);
    printf("  at most %u queue pairs, %u deep; %u regions\n", info->queue_pairs, info->queue_depth,
           info->regions);
    for (uint32_t p = 0; p < info->port_count; p++)
        print_port(&info->ports[p], chosen, here && chosen->port == p);
}

static void print_locked(void) {
    uint64_t limit = gw_rdma_locked_limit();
    if (limit == UINT64_MAX) {
        puts("locked memory (ulimit -l): no limit");
        return;
    }
    printf("locked memory (ulimit -l): %llu KiB; registered memory counts against it. If it\n"
           "is too little, put this line into /etc/security/limits.conf and log in again:\n  %s\n",
           (unsigned long long)limit / 1024, gw_rdma_limits_line);
}

static void print_all(const gw_rdma_info *devices, uint32_t count, const choice *chosen) {
    for (uint32_t d = 0; d < count; d++)
        print_device(&devices[d], chosen, chosen->made && chosen->device == d);
    if (count > 0) print_locked();
    if (chosen->made) {
        puts("* marks what a peer would use");
    } else {
        puts("RDMA cannot be used:");
        gw_print_wrapped("  ", chosen->err.text);
    }
}

/* JSON for programs. */

static json_t *port_json(const gw_rdma_port *port, const choice *chosen, bool here) {
    json_t *object = json_object(), *gids = json_array();
    char text[INET6_ADDRSTRLEN];
    gw_json_count(object, "port", port->number);
    gw_json_text(object, "state", port->state);
    gw_json_text(object, "link", port->link);
    gw_json_count(object, "mtu", port->mtu_bytes);
    for (uint32_t g = 0; g < port->gid_count; g++) {
        json_t *gid = json_object();
        gw_json_count(gid, "index", port->gids[g].index);
        gw_json_text(gid, "type", gw_rdma_gid_type_name(port->gids[g].type));
        gw_json_text(gid, "address", gid_text(&port->gids[g], text));
        gw_json_text(gid, "netdev", port->gids[g].netdev);
        gw_json_flag(gid, "chosen", here && chosen->gid == g);
        json_array_append_new(gids, gid);
    }
    json_object_set_new(object, "gids", gids);
    return object;
}

static json_t *device_json(const gw_rdma_info *info, const choice *chosen, bool here) {
    json_t *object = json_object(), *ports = json_array();
    gw_json_text(object, "name", info->name);
    if (!info->opened) {
        gw_json_text(object, "error", info->trouble.text);
    } else {
        gw_json_text(object, "firmware", info->firmware);
        gw_json_text(object, "atomics", info->atomics);
        gw_json_count(object, "max_queue_pairs", info->queue_pairs);
        gw_json_count(object, "max_completion_queues", info->completion_queues);
        gw_json_count(object, "max_regions", info->regions);
        gw_json_count(object, "max_queue_depth", info->queue_depth);
        gw_json_count(object, "reads_in_flight_out", info->reads_out);
        gw_json_count(object, "reads_in_flight_in", info->reads_in);
    }
    for (uint32_t p = 0; p < info->port_count; p++)
        json_array_append_new(ports, port_json(&info->ports[p], chosen, here && chosen->port == p));
    json_object_set_new(object, "ports", ports);
    return object;
}

static void add_rdma(json_t *object, const gw_rdma_info *devices, uint32_t count, const choice *chosen) {
    json_t *list = json_array();
    for (uint32_t d = 0; d < count; d++)
        json_array_append_new(list, device_json(&devices[d], chosen, chosen->made && chosen->device == d));
    json_object_set_new(object, "devices", list);
    gw_json_flag(object, "usable", chosen->made);
    if (!chosen->made) gw_json_text(object, "error", chosen->err.text);
    uint64_t limit = gw_rdma_locked_limit();
    if (limit != UINT64_MAX) gw_json_count(object, "locked_bytes_limit", limit);
}

/* Shows the RDMA devices; returns whether one can be used. */
static bool show_rdma(const options *o, json_t *object) {
    gw_rdma_info *devices;
    uint32_t count;
    choice chosen = {0};
    if (gw_rdma_list(&devices, &count, &chosen.err))
        chosen.made =
            gw_rdma_choose(devices, count, &o->rdma, &chosen.device, &chosen.port, &chosen.gid, &chosen.err);
    if (object != NULL)
        add_rdma(object, devices, count, &chosen);
    else
        print_all(devices, count, &chosen);
    free(devices);
    return chosen.made;
}

/* Shows the GPUs; returns whether one can be used. */
static bool show_gpus(json_t *object) {
    gw_gpu_survey *survey = gw_gpu_survey_take();
    bool usable = gw_gpu_survey_usable(survey);
    if (object != NULL)
        gw_gpu_survey_json(survey, object);
    else
        gw_gpu_survey_print(survey);
    gw_gpu_survey_free(survey);
    return usable;
}

int gw_devices_main(int argc, char **argv) {
    options o = {0};
    struct argp argp = {.options = devices_options, .parser = parse_devices, .doc = devices_doc};
    gw_argp_parse(&argp, argc, argv, &o);
    json_t *object = o.json ? json_object() : NULL;
    bool usable = show_gpus(object);
    if (!o.gpus) usable = show_rdma(&o, object);
    if (object != NULL) gw_json_print(object);
    return usable ? 0 : 1;
}
