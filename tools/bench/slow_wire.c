#include "tools/bench/slow_wire.h"

#include "tools/godwit/text/number.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const uint64_t million = 1000000, most_rate = 1000 * UINT64_C(1000000000);

bool gw_slow_wire_rate(const char *text, uint64_t *bits_per_s) {
    char digits[8];
    size_t length = strlen(text);
    uint64_t count;
    if (length < 2 || length > sizeof digits || strchr("mg", text[length - 1]) == NULL) return false;
    snprintf(digits, sizeof digits, "%.*s", (int)(length - 1), text);
    if (!gw_number_read(digits, 1, most_rate / million, &count)) return false;
    count *= text[length - 1] == 'g' ? 1000 * million : million;
    if (count > most_rate) return false;
    *bits_per_s = count;
    return true;
}

struct in_addr gw_slow_wire_address(int side) {
    return (struct in_addr){.s_addr = htonl(UINT32_C(0x0a530001) + (uint32_t)side)}; /* 10.83.0.1 and .2 */
}

bool gw_slow_wire_enter(const gw_slow_wire *wire, int side, gw_err *err) {
    return setns(wire->space[side], CLONE_NEWNET) == 0 || gw_fail_errno(err, errno, "setns");
}

void gw_slow_wire_close(gw_slow_wire *wire) {
    for (int i = 0; i < 3; i++) {
        if (wire->space[i] >= 0) close(wire->space[i]);
        wire->space[i] = -1;
    }
}

static int this_space(void) {
    return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

/* Runs a line of shell; what it says is the error's text. */
static bool run(const char *line, gw_err *err) {
    char text[300] = "", whole[1000];
    snprintf(whole, sizeof whole, "{ %s; } 2>&1", line);
    FILE *out = popen(whole, "re");
    if (out == NULL) return gw_fail_errno(err, errno, "popen");
    size_t got = fread(text, 1, sizeof text - 1, out);
    text[got] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return pclose(out) == 0 ||
           gw_fail(err, GW_E_UNSUPPORTED,
                   "two namespaces cannot be joined by veth devices with a rate, which "
                   "needs ip and tc (package iproute2) and a kernel with veth and sch_tbf: %s",
                   text);
}

/* Gives the device of the side where the thread is its address and its rate. */
static bool set_up(int side, uint64_t bits_per_s, gw_err *err) {
    char line[600], address[INET_ADDRSTRLEN];
    struct in_addr own = gw_slow_wire_address(side);
    /* What a thousandth of a second brings may go at once, and a packet of 64 KiB at least. */
    uint64_t burst = bits_per_s / 8 / 1000;
    if (burst < 68 * 1024) burst = 68 * 1024;
    snprintf(line, sizeof line,
             "ip link set lo up && ip address add %s/30 dev " GW_SLOW_WIRE_DEVICE
             " && ip link set " GW_SLOW_WIRE_DEVICE " up && tc qdisc add dev " GW_SLOW_WIRE_DEVICE
             " root tbf rate %" PRIu64 "bit burst %" PRIu64 "b latency 50ms",
             inet_ntop(AF_INET, &own, address, sizeof address), bits_per_s, burst);
    return run(line, err);
}

static bool make(gw_slow_wire *wire, uint64_t bits_per_s, gw_err *err) {
    char line[200];
    for (int i = 0; i < 2; i++) {
        if (unshare(CLONE_NEWNET) != 0)
            return gw_fail(err, errno == EPERM ? GW_E_DENIED : GW_E_UNSUPPORTED,
                           "this process may not make network namespaces (%s): run it as root, or by "
                           "'unshare -rn' where users may",
                           strerror(errno));
        wire->space[i] = this_space();
        if (wire->space[i] < 0) return gw_fail_errno(err, errno, "/proc/thread-self/ns/net");
    }
    snprintf(line, sizeof line,
             "ip link add " GW_SLOW_WIRE_DEVICE " type veth peer name " GW_SLOW_WIRE_DEVICE
             " netns /proc/%d/fd/%d",
             (int)getpid(), wire->space[0]);
    return run(line, err) && set_up(1, bits_per_s, err) && gw_slow_wire_enter(wire, 0, err) &&
           set_up(0, bits_per_s, err);
}

bool gw_slow_wire_make(gw_slow_wire *wire, uint64_t bits_per_s, gw_err *err) {
    gw_err at_home;
    *wire = (gw_slow_wire){{-1, -1, -1}};
    wire->space[GW_SLOW_WIRE_HOME] = this_space();
    if (wire->space[GW_SLOW_WIRE_HOME] < 0) return gw_fail_errno(err, errno, "/proc/thread-self/ns/net");
    bool made = make(wire, bits_per_s, err);
    if (!gw_slow_wire_enter(wire, GW_SLOW_WIRE_HOME, made ? err : &at_home)) made = false;
    if (!made) gw_slow_wire_close(wire);
    return made;
}
