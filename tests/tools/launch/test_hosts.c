/* The hosts of `godwit launch`: lists, files, and what is refused. */
#include "tools/godwit/launch/hosts.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gw_launch_hosts hosts;

static void expect(const char *expected) {
    char all[2000] = "";
    for (uint32_t i = 0; i < hosts.count; i++) {
        const gw_launch_host *h = &hosts.list[i];
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s|%s|%s|%u/%u ", h->ssh, h->name, h->address,
                 h->twin, h->twins);
    }
    cr_expect_str_eq(all, expected);
    gw_launch_hosts_free(&hosts);
}

Test(hosts, a_list_names_users_and_addresses) {
    gw_err err;
    bool list = gw_launch_hosts_add(&hosts, "n[1-2],c=10.0.0.3", &err);
    cr_expect_not(list); /* an address of its own for each */
    cr_assert(gw_launch_hosts_add(&hosts, "n[1-2]", &err) &&
                  gw_launch_hosts_add(&hosts, "me@b,c=10.0.0.3,u@d=fd00::4", &err),
              "%s", err.text);
    expect("n1|n1|n1|0/1 n2|n2|n2|0/1 me@b|b|b|0/1 c|c|10.0.0.3|0/1 u@d|d|fd00::4|0/1 ");
}

Test(hosts, one_host_may_have_several_commands) {
    gw_err err;
    cr_assert(gw_launch_hosts_add(&hosts, "a,b,me@a", &err) && gw_launch_hosts_add(&hosts, "a", &err), "%s",
              err.text);
    expect("a|a|a|0/3 b|b|b|0/1 me@a|a|a|1/3 a|a|a|2/3 ");
}

Test(hosts, what_is_no_host_is_refused_and_no_option_of_ssh_comes_in) {
    static const char *const lists[] = {"",        "-oProxyCommand=x",
                                        "a@-b",    "a=-b",
                                        "=b",      "a=",
                                        "@b",      "a@",
                                        "a=b=c",   "a b",
                                        "a;b",     "$(x)",
                                        "n[1-",    "a,,b",
                                        "n[1-300]"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        gw_err err;
        cr_expect_not(gw_launch_hosts_add(&hosts, lists[i], &err), "%s", lists[i]);
        cr_expect(err.code == GW_E_USAGE && err.text[0] != '\0', "%s: %s", lists[i], err.text);
        gw_launch_hosts_free(&hosts);
    }
}

Test(hosts, a_file_has_lists_and_remarks_and_its_faults_have_lines) {
    char path[] = "/tmp/godwit-hosts-XXXXXX";
    gw_err err;
    int fd = mkstemp(path);
    FILE *out = fdopen(fd, "w");
    fputs("# the hosts\n\n  a , b\n", out);
    fflush(out);
    cr_expect_not(gw_launch_hosts_read(&hosts, path, &err));
    cr_expect_not_null(strstr(err.text, ", line 3: "), "%s", err.text);
    gw_launch_hosts_free(&hosts);
    rewind(out);
    fputs("# the hosts\n\n\ta,b \r\nn[1-2] # and more\nc=10.0.0.3", out);
    fflush(out);
    cr_assert(gw_launch_hosts_read(&hosts, path, &err), "%s", err.text);
    expect("a|a|a|0/1 b|b|b|0/1 n1|n1|n1|0/1 n2|n2|n2|0/1 c|c|10.0.0.3|0/1 ");
    rewind(out);
    for (int i = 0; i < 9000; i++) fputc('x', out);
    fflush(out);
    cr_expect_not(gw_launch_hosts_read(&hosts, path, &err));
    cr_expect_not_null(strstr(err.text, "too long"), "%s", err.text);
    gw_launch_hosts_free(&hosts);
    fclose(out);
    unlink(path);
    cr_expect_not(gw_launch_hosts_read(&hosts, path, &err));
    cr_expect_eq(err.code, GW_E_USAGE);
    cr_expect_not(gw_launch_hosts_read(&hosts, "/", &err));
}

Test(hosts, peers_on_this_host_alone_need_no_key) {
    gw_err err;
    cr_assert(gw_launch_hosts_add(&hosts, "localhost,x=127.0.0.1,y=::1", &err), "%s", err.text);
    cr_expect(gw_launch_hosts_are_here(&hosts));
    cr_assert(gw_launch_hosts_add(&hosts, "z", &err), "%s", err.text);
    cr_expect_not(gw_launch_hosts_are_here(&hosts));
    gw_launch_hosts_free(&hosts);
}
