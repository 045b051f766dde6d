#include "tools/godwit/show/host.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { HOST_BYTES = 256 };

/* Copies the host without its port and without a final dot; false: it is none. */
static bool host_of(const char *header, char host[HOST_BYTES]) {
    size_t length = header[0] == '[' ? strcspn(header, "]") : strcspn(header, ":");
    const char *begin = header;
    if (header[0] == '[') {
        if (header[length] != ']') return false;
        begin++;
        length--;
    }
    if (length > 0 && begin[length - 1] == '.') length--;
    if (length == 0 || length >= HOST_BYTES) return false;
    memcpy(host, begin, length);
    host[length] = '\0';
    return true;
}

static bool is_address(const char *host) {
    struct in_addr four;
    struct in6_addr six;
    char copy[HOST_BYTES];
    snprintf(copy, sizeof copy, "%s", host);
    copy[strcspn(copy, "%")] = '\0'; /* the interface of a link-local address */
    return inet_pton(AF_INET, host, &four) == 1 || inet_pton(AF_INET6, copy, &six) == 1;
}

static bool is_below(const char *host, const char *top) {
    size_t length = strlen(host), tail = strlen(top);
    return length > tail && host[length - tail - 1] == '.' && strcasecmp(host + length - tail, top) == 0;
}

bool gw_host_is_ours(const char *header, const char *machine) {
    static const char *const private_tops[] = {"localhost", "local", "internal", "intranet", "lan",
                                               "home.arpa", "test",  "corp",     "home"};
    char host[HOST_BYTES];
    if (header == NULL || header[0] == '\0') return true;
    if (!host_of(header, host)) return false;
    if (is_address(host) || strchr(host, '.') == NULL) return true;
    for (size_t i = 0; i < sizeof private_tops / sizeof private_tops[0]; i++)
        if (is_below(host, private_tops[i])) return true;
    size_t first = strcspn(host, "."), own = strcspn(machine, ".");
    return own > 0 && first == own && strncasecmp(host, machine, own) == 0;
}
