/* Addresses as people write them; bad ones are refused by name. */
#include "net/loop/address.h"
#include "tests/net/flock.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>

static void parses(const char *text, const char *host, uint16_t port) {
    gw_err err;
    char found[GW_HOST_TEXT];
    uint16_t number;
    flock_need(gw_address_parse(text, found, &number, &err), &err);
    cr_assert_str_eq(found, host);
    cr_assert_eq(number, port);
}

Test(address, hosts_and_ports_are_told_apart) {
    parses("127.0.0.1:7117", "127.0.0.1", 7117);
    parses("node-3.cluster:0", "node-3.cluster", 0);
    parses("[::1]:65535", "::1", 65535);
}

Test(address, bad_ones_are_refused_with_the_text_that_was_given) {
    const char *bad[] = {"",         "host",  "host:",  ":7117", "host:65536", "host:-1",          "host:7x",
                         "::1:7117", "[::1]", "[::1:7", "[]:7",  "host: 7",    "host:999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gw_err err;
        char host[GW_HOST_TEXT];
        uint16_t port;
        cr_assert(!gw_address_parse(bad[i], host, &port, &err), "%s", bad[i]);
        cr_assert_eq(err.code, GW_E_USAGE);
        cr_assert_not_null(strstr(err.text, bad[i]));
    }
    static const struct {
        const char *text, *said;
    } bare[] = {{"8080", "a port of this machine alone: 127.0.0.1:8080"},
                {"host8080", "on the default port: host8080:7117"},
                {"::1:7117", "in brackets: [::1]:7117"},
                {"fd77::1", "in brackets: [fd77::1]:PORT"},
                {"fd77::2:1", "in brackets: [fd77::2:1]:PORT"},
                {"fd77::1:7117", "in brackets: [fd77::1]:7117"}};
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++) {
        gw_err err;
        char host[GW_HOST_TEXT];
        uint16_t port;
        cr_assert_not(gw_address_parse(bare[i].text, host, &port, &err));
        cr_expect_not_null(strstr(err.text, bare[i].said), "%s", err.text);
    }
    char longer[300];
    memset(longer, 'a', sizeof longer);
    memcpy(longer + sizeof longer - 4, ":80", 4);
    gw_err err;
    char host[GW_HOST_TEXT];
    uint16_t port;
    cr_assert(!gw_address_parse(longer, host, &port, &err));
}

Test(address, numeric_hosts_resolve_to_themselves) {
    gw_err err;
    gw_addr addrs[4];
    size_t count;
    char text[GW_ADDR_TEXT];
    flock_need(gw_address_resolve("127.0.0.1:80", addrs, 4, &count, &err), &err);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(gw_addr_text(&addrs[0], text), "127.0.0.1:80");
    flock_need(gw_address_resolve("[::1]:81", addrs, 4, &count, &err), &err);
    cr_assert_eq(count, 1);
    cr_assert_eq(addrs[0].family, 6);
    cr_assert_eq(addrs[0].port, 81);
}

Test(address, literal_is_what_needs_no_look_up) {
    gw_addr addr;
    char text[GW_ADDR_TEXT];
    cr_assert(gw_address_literal("10.1.2.3:80", &addr));
    cr_assert_str_eq(gw_addr_text(&addr, text), "10.1.2.3:80");
    cr_assert(gw_address_literal("[fe80::9]:81", &addr));
    cr_assert_str_eq(gw_addr_text(&addr, text), "[fe80::9]:81");
    static const char *const others[] = {"localhost:80", "10.1.2.3.example:80", "10.1.2.3", "10.1.2.3:x", ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_expect(!gw_address_literal(others[i], &addr), "%s", others[i]);
}

Test(address, an_unknown_name_is_not_found) {
    gw_err err;
    gw_addr addrs[4];
    size_t count;
    cr_assert(!gw_address_resolve("no-such-host.invalid:80", addrs, 4, &count, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
    cr_assert_null(strstr(err.text, "no-such-host.invalid"), "the caller names it: %s", err.text);
}

Test(address, the_kernels_form_and_ours_agree) {
    gw_addr v4 = flock_addr(7117), v6 = {.family = 6, .ip = {[0] = 0xfe, [15] = 9}, .port = 5};
    const gw_addr *both[] = {&v4, &v6};
    for (int i = 0; i < 2; i++) {
        struct sockaddr_storage address;
        gw_address_to_sockaddr(both[i], &address);
        gw_addr back = gw_address_from_sockaddr((struct sockaddr *)&address);
        cr_assert(gw_addr_equal(&back, both[i]));
    }
    struct sockaddr_storage address;
    cr_assert_eq(gw_address_for_socket(&v4, AF_INET6, &address), sizeof(struct sockaddr_in6));
    gw_addr unmapped = gw_address_from_sockaddr((struct sockaddr *)&address);
    cr_assert(gw_addr_equal(&unmapped, &v4));
    cr_assert_eq(gw_address_for_socket(&v6, AF_INET, &address), 0);
}

Test(address, without_a_key_only_loopback_may_listen_and_the_refusal_says_what_to_do) {
    gw_err err;
    gw_addr inside = flock_addr(1), inside6 = {.family = 6, .ip = {[15] = 1}};
    gw_addr outside = {.family = 4, .ip = {10, 0, 0, 1}}, any = {.family = 4};
    flock_need(gw_net_require_loopback(&inside, false, &err), &err);
    flock_need(gw_net_require_loopback(&inside6, false, &err), &err);
    flock_need(gw_net_require_loopback(&outside, true, &err), &err);
    cr_assert(gw_address_is_any(&any));
    cr_assert(!gw_net_require_loopback(&any, false, &err));
    cr_assert(!gw_net_require_loopback(&outside, false, &err));
    cr_assert_eq(err.code, GW_E_USAGE);
    cr_assert_not_null(strstr(err.text, "godwit keygen FILE"));
    cr_assert_not_null(strstr(err.text, "--key FILE"));
}
