/* Names that lead to this machine are told from those that may be of another site. */
#include "tools/godwit/show/host.h"

#include <criterion/criterion.h>
#include <stddef.h>

Test(host, addresses_and_names_of_this_machine_are_ours) {
    static const char *const ours[] = {NULL,
                                       "",
                                       "127.0.0.1",
                                       "127.0.0.1:8080",
                                       "[::1]:80",
                                       "[fe80::1%eth0]:80",
                                       "10.1.2.3:1",
                                       "localhost",
                                       "localhost:80",
                                       "node1",
                                       "node1:8080",
                                       "node7.example.com",
                                       "NODE7.a.org",
                                       "a.localhost",
                                       "other.local:80",
                                       "x.ns.svc.cluster.local",
                                       "nas.lan",
                                       "a.internal.",
                                       "box.home.arpa"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        cr_expect(gw_host_is_ours(ours[i], "node7.cluster"), "%s", ours[i] != NULL ? ours[i] : "none");
}

Test(host, names_that_anybody_can_register_are_not) {
    static const char *const others[] = {"evil.com",
                                         "evil.com:8080",
                                         "127.0.0.1.evil.com",
                                         "node7x.example.com",
                                         "node.example.com",
                                         "localhost.evil.com",
                                         "local.evil.io",
                                         "evil.com.",
                                         "[::1",
                                         ":80",
                                         "a.notlocal"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_expect_not(gw_host_is_ours(others[i], "node7.cluster"), "%s", others[i]);
    cr_expect_not(gw_host_is_ours("a.b", ""), "a machine without a name");
}
