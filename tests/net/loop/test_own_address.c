/* The addresses that a peer which listens on an any-address tells others. The interfaces are this file's own:
 * its getifaddrs stands in for the system's. */
#include "net/loop/address.h"
#include "net/loop/own_address.h"

#include <criterion/criterion.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

enum { MOST = 2, PORT = 7117 };

static const gw_addr any4 = {.family = 4, .port = PORT}, any6 = {.family = 6, .port = PORT};

static gw_addr v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
    return (gw_addr){.family = 4, .ip = {a, b, c, d}, .port = PORT};
}

static gw_addr v6(uint8_t first, uint8_t second, uint8_t last) {
    return (gw_addr){.family = 6, .ip = {[0] = first, [1] = second, [15] = last}, .port = PORT};
}

/* What getifaddrs answers. */
static struct {
    struct ifaddrs list[4];
    struct sockaddr_storage addresses[4];
    char names[4][IF_NAMESIZE];
    unsigned count;
} machine;

static void has_interface(const char *name, unsigned flags, gw_addr addr) {
    unsigned i = machine.count++;
    strcpy(machine.names[i], name);
    gw_address_to_sockaddr(&addr, &machine.addresses[i]);
    machine.list[i] = (struct ifaddrs){.ifa_name = machine.names[i],
                                       .ifa_flags = flags,
                                       .ifa_addr = (struct sockaddr *)&machine.addresses[i]};
    if (i > 0) machine.list[i - 1].ifa_next = &machine.list[i];
}

int getifaddrs(struct ifaddrs **list) {
    *list = machine.count > 0 ? machine.list : NULL;
    return 0;
}

void freeifaddrs(struct ifaddrs *list) {
    (void)list;
}

static void equals(const gw_addr *found, gw_addr expected) {
    char text[GW_ADDR_TEXT], wanted[GW_ADDR_TEXT];
    cr_expect(gw_addr_equal(found, &expected), "%s, not %s", gw_addr_text(found, text),
              gw_addr_text(&expected, wanted));
}

Test(own_address, interfaces_that_are_down_are_not_told) {
    gw_addr told[MOST];
    has_interface("lo", IFF_UP | IFF_RUNNING, v4(127, 0, 0, 1));
    has_interface("down0", 0, v4(10, 1, 0, 1));
    has_interface("down1", IFF_RUNNING, v4(10, 2, 0, 1));
    has_interface("up0", IFF_UP | IFF_RUNNING, v4(10, 3, 0, 1));
    cr_assert_eq(gw_own_addresses(&any4, NULL, 0, told, MOST), 1);
    equals(&told[0], v4(10, 3, 0, 1));
}

Test(own_address, without_any_the_others_use_what_they_see) {
    gw_addr told[MOST];
    has_interface("lo", IFF_UP | IFF_RUNNING, v4(127, 0, 0, 1));
    cr_assert_eq(gw_own_addresses(&any4, NULL, 0, told, MOST), 1);
    equals(&told[0], any4);
}

Test(own_address, one_that_was_named_is_told_as_it_is) {
    gw_addr told[MOST], named = v4(10, 9, 9, 9);
    has_interface("up0", IFF_UP | IFF_RUNNING, v4(10, 3, 0, 1));
    cr_assert_eq(gw_own_addresses(&named, NULL, 0, told, MOST), 1);
    equals(&told[0], named);
}

/* The machine of the following tests: Docker's bridge comes first, as it may. */
static const gw_interface_address interfaces[] = {
    {.addr = {.family = 4, .ip = {127, 0, 0, 1}}, .up = true, .carrier = true},
    {.addr = {.family = 4, .ip = {172, 17, 0, 1}}, .up = true, .carrier = true, .bridge = true},
    {.addr = {.family = 4, .ip = {10, 0, 0, 5}}, .up = true},
    {.addr = {.family = 4, .ip = {192, 168, 1, 5}}, .up = true, .carrier = true},
    {.addr = {.family = 4, .ip = {10, 7, 0, 5}}, .up = true, .carrier = true},
    {.addr = {.family = 6, .ip = {[0] = 0xfe, [1] = 0x80, [15] = 5}}, .up = true, .carrier = true},
    {.addr = {.family = 6, .ip = {[0] = 0xfd, [15] = 5}}, .up = true, .carrier = true},
};
enum { INTERFACES = sizeof interfaces / sizeof *interfaces };

Test(own_address, bridges_and_interfaces_without_a_carrier_come_last) {
    gw_addr told[INTERFACES];
    cr_assert_eq(gw_own_addresses_choose(interfaces, INTERFACES, NULL, 0, &any4, told, INTERFACES), 4);
    equals(&told[0], v4(192, 168, 1, 5));
    equals(&told[1], v4(10, 7, 0, 5));
    equals(&told[2], v4(172, 17, 0, 1));
    equals(&told[3], v4(10, 0, 0, 5));
    cr_assert_eq(gw_own_addresses_choose(interfaces, INTERFACES, NULL, 0, &any4, told, MOST), MOST);
    equals(&told[0], v4(192, 168, 1, 5));
    equals(&told[1], v4(10, 7, 0, 5));
}

Test(own_address, those_that_lead_to_seeds_come_first) {
    gw_addr told[MOST];
    const gw_addr routes[] = {v4(10, 7, 0, 5), v4(127, 0, 0, 1), v4(192, 168, 1, 5)};
    cr_assert_eq(gw_own_addresses_choose(interfaces, INTERFACES, routes, 3, &any4, told, MOST), MOST);
    equals(&told[0], v4(10, 7, 0, 5));
    equals(&told[1], v4(192, 168, 1, 5));
    const gw_addr bridged = v4(172, 17, 0, 1);
    cr_assert_eq(gw_own_addresses_choose(interfaces, INTERFACES, &bridged, 1, &any4, told, MOST), MOST);
    equals(&told[0], bridged);
}

Test(own_address, of_both_families_only_what_reaches_further_than_the_link) {
    gw_addr told[INTERFACES];
    cr_assert_eq(gw_own_addresses_choose(interfaces, INTERFACES, NULL, 0, &any6, told, INTERFACES), 5);
    equals(&told[2], v6(0xfd, 0, 5));
}
