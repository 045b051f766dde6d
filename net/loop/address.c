#include "net/loop/address.h"

#include "core/base/assert.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* Fails because of an IPv6 address without brackets. What follows its last colon is a port where the rest
 * is an address, unless it is so short that it may be part of the address. */
static bool fail_unbracketed(const char *text, const char *colon, gw_err *err) {
    char rest[GW_HOST_TEXT] = "";
    struct in6_addr address;
    size_t length = (size_t)(colon - text), digits = strspn(colon + 1, "0123456789");
    if (length < sizeof rest) memcpy(rest, text, length);
    if (digits >= 4 && colon[1 + digits] == '\0' && inet_pton(AF_INET6, rest, &address) == 1)
        return gw_fail(err, GW_E_USAGE, "'%s': an IPv6 address is written in brackets: [%s]%s", text, rest,
                       colon);
    return gw_fail(err, GW_E_USAGE, "'%s': an IPv6 address is written in brackets: [%s]:PORT", text, text);
}

bool gw_address_parse(const char *text, char host[GW_HOST_TEXT], uint16_t *port, gw_err *err) {
    const char *colon = strrchr(text, ':'), *first = text, *last = colon;
    if (colon == NULL && text[0] != '\0' && strspn(text, "0123456789") == strlen(text))
        return gw_fail(err, GW_E_USAGE, "'%s' is not HOST:PORT; a port of this machine alone: 127.0.0.1:%s",
                       text, text);
    if (colon == NULL)
        return gw_fail(err, GW_E_USAGE,
                       "'%s' is not HOST:PORT; where peers listen on the default port: %s:7117", text, text);
    if (text[0] == '[') {
        if (colon == text || colon[-1] != ']')
            return gw_fail(err, GW_E_USAGE, "'%s' is not [IPv6]:PORT", text);
        first++;
        last--;
    } else if (memchr(text, ':', (size_t)(colon - text)) != NULL) {
        return fail_unbracketed(text, colon, err);
    }
    size_t length = (size_t)(last - first);
    if (length == 0 || length >= GW_HOST_TEXT)
        return gw_fail(err, GW_E_USAGE, "'%s': the host is %s", text, length ? "too long" : "missing");
    const char *digits = colon + 1;
    size_t count = strspn(digits, "0123456789");
    unsigned long number =
        count > 0 && count <= 5 && digits[count] == '\0' ? strtoul(digits, NULL, 10) : 65536;
    if (number > 65535)
        return gw_fail(err, GW_E_USAGE, "'%s': the port is not a number from 0 to 65535", text);
    memcpy(host, first, length);
    host[length] = '\0';
    *port = (uint16_t)number;
    return true;
}

static bool listed(const gw_addr *addrs, size_t count, const gw_addr *addr) {
    for (size_t i = 0; i < count; i++)
        if (gw_addr_equal(&addrs[i], addr)) return true;
    return false;
}

bool gw_address_literal(const char *text, gw_addr *addr) {
    char host[GW_HOST_TEXT];
    uint16_t port = 0;
    gw_err err;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (!gw_address_parse(text, host, &port, &err) || getaddrinfo(host, NULL, &hints, &found) != 0)
        return false;
    *addr = gw_address_from_sockaddr(found->ai_addr);
    addr->port = port;
    freeaddrinfo(found);
    return addr->family != 0;
}

bool gw_address_resolve(const char *text, gw_addr *addrs, size_t capacity, size_t *count, gw_err *err) {
    GW_ASSERT(capacity > 0);
    char host[GW_HOST_TEXT];
    uint16_t port = 0;
    if (!gw_address_parse(text, host, &port, err)) return false;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    int failed = getaddrinfo(host, NULL, &hints, &found);
    if (failed != 0)
        return gw_fail(err, GW_E_NOTFOUND, "%s",
                       failed == EAI_SYSTEM ? strerror(errno) : gai_strerror(failed));
    size_t kept = 0;
    for (const struct addrinfo *at = found; at != NULL && kept < capacity; at = at->ai_next) {
        gw_addr addr = gw_address_from_sockaddr(at->ai_addr);
        addr.port = port;
        if (addr.family != 0 && !listed(addrs, kept, &addr)) addrs[kept++] = addr;
    }
    freeaddrinfo(found);
    if (kept == 0) return gw_fail(err, GW_E_NOTFOUND, "it has no IPv4 or IPv6 address");
    *count = kept;
    return true;
}

socklen_t gw_address_to_sockaddr(const gw_addr *addr, struct sockaddr_storage *out) {
    GW_ASSERT(addr->family == 4 || addr->family == 6);
    memset(out, 0, sizeof *out);
    if (addr->family == 4) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)out;
        v4->sin_family = AF_INET;
        v4->sin_port = htons(addr->port);
        memcpy(&v4->sin_addr, addr->ip, 4);
        return sizeof *v4;
    }
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(addr->port);
    memcpy(&v6->sin6_addr, addr->ip, 16);
    return sizeof *v6;
}

gw_addr gw_address_from_sockaddr(const struct sockaddr *address) {
    gw_addr addr = {0};
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        addr.family = 4;
        addr.port = ntohs(v4.sin_port);
        memcpy(addr.ip, &v4.sin_addr, 4);
    } else if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        bool mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
        addr.family = mapped ? 4 : 6;
        addr.port = ntohs(v6.sin6_port);
        memcpy(addr.ip, (const uint8_t *)&v6.sin6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
    }
    return addr;
}

socklen_t gw_address_for_socket(const gw_addr *addr, int socket_family, struct sockaddr_storage *out) {
    if (addr->family == 6 && socket_family == AF_INET6) return gw_address_to_sockaddr(addr, out);
    if (addr->family != 4) return 0;
    if (socket_family == AF_INET) return gw_address_to_sockaddr(addr, out);
    gw_addr mapped = {.family = 6, .ip = {[10] = 0xff, [11] = 0xff}, .port = addr->port};
    memcpy(mapped.ip + 12, addr->ip, 4);
    return gw_address_to_sockaddr(&mapped, out);
}

bool gw_address_is_loopback(const gw_addr *addr) {
    static const uint8_t v6[16] = {[15] = 1};
    return addr->family == 4 ? addr->ip[0] == 127 : addr->family == 6 && memcmp(addr->ip, v6, 16) == 0;
}

bool gw_address_is_any(const gw_addr *addr) {
    static const uint8_t zeros[16];
    return addr->family != 0 && memcmp(addr->ip, zeros, addr->family == 4 ? 4 : 16) == 0;
}

bool gw_net_require_loopback(const gw_addr *addr, bool have_key, gw_err *err) {
    if (have_key || gw_address_is_loopback(addr)) return true;
    char text[GW_ADDR_TEXT];
    return gw_fail(
        err, GW_E_USAGE,
        "without a key only loopback is allowed, and %s is not. Make a key once with `godwit keygen "
        "FILE`, copy FILE to every node, and start every node with `--key FILE`",
        gw_addr_text(addr, text));
}
