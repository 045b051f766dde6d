/* The choice of a device and a GID, tested without a device. */
#include "net/rdma/rdma.h"

#include <criterion/criterion.h>
#include <string.h>

static gw_rdma_info device(const char *name, bool active) {
    gw_rdma_info info = {.opened = true, .port_count = 1};
    strcpy(info.name, name);
    info.ports[0] = (gw_rdma_port){.number = 1, .active = active};
    return info;
}

static void add_gid(gw_rdma_info *info, gw_rdma_gid_type type, bool ipv4, bool link_local) {
    gw_rdma_port *port = &info->ports[0];
    port->gids[port->gid_count] =
        (gw_rdma_gid){.index = port->gid_count, .type = type, .ipv4 = ipv4, .link_local = link_local};
    port->gid_count++;
}

static uint32_t d, p, g;
static gw_err err;

Test(rdma_choice, the_best_gid_of_an_active_port) {
    gw_rdma_info devices[] = {device("off0", false), device("old0", true), device("new0", true),
                              device("ib0", true)};
    add_gid(&devices[0], GW_RDMA_GID_ROCE_V2, true, false);
    add_gid(&devices[1], GW_RDMA_GID_ROCE_V1, true, false);
    add_gid(&devices[1], GW_RDMA_GID_ROCE_V2, false, true);
    add_gid(&devices[2], GW_RDMA_GID_ROCE_V2, false, false);
    add_gid(&devices[2], GW_RDMA_GID_ROCE_V2, true, false);
    add_gid(&devices[3], GW_RDMA_GID_IB, false, true);
    gw_rdma_options any = {0};
    cr_assert(gw_rdma_choose(devices, 4, &any, &d, &p, &g, &err));
    cr_assert(d == 2 && p == 0 && g == 1);
    gw_rdma_options named = {.device = "ib0"};
    cr_assert(gw_rdma_choose(devices, 4, &named, &d, &p, &g, &err));
    cr_assert(d == 3 && g == 0);
    gw_rdma_options indexed = {.gid_chosen = true, .gid_index = 0};
    cr_assert(gw_rdma_choose(devices, 4, &indexed, &d, &p, &g, &err));
    cr_assert(d == 3 && g == 0, "InfiniBand before RoCE without an IPv4 address");
    named.device = "old0";
    cr_assert(!gw_rdma_choose(devices, 4, &named, &d, &p, &g, &err));
    cr_assert(err.code == GW_E_NOTFOUND && strstr(err.text, "old0") != NULL);
    named.device = "off0";
    cr_assert(!gw_rdma_choose(devices, 4, &named, &d, &p, &g, &err));
}

Test(rdma_choice, says_what_is_wrong) {
    gw_rdma_options any = {0}, named = {.device = "mlx5_0"};
    cr_assert(!gw_rdma_choose(NULL, 0, &any, &d, &p, &g, &err));
    cr_assert(err.code == GW_E_NOTFOUND && strstr(err.text, "rxe") != NULL);
    gw_rdma_info devices[] = {device("mlx4_0", true)};
    cr_assert(!gw_rdma_choose(devices, 1, &named, &d, &p, &g, &err));
    cr_assert(strstr(err.text, "mlx5_0") != NULL && strstr(err.text, "godwit devices") != NULL);
    devices[0].opened = false;
    gw_fail(&devices[0].trouble, GW_E_IO, "not allowed");
    named.device = "mlx4_0";
    cr_assert(!gw_rdma_choose(devices, 1, &named, &d, &p, &g, &err));
    cr_assert_str_eq(err.text, "not allowed");
}
