#include "tools/godwit/show/http.h"

#include "net/loop/address.h"
#include "net/secure/secure.h"
#include "tools/godwit/show/accept.h"
#include "tools/godwit/thread/acceptor.h"

#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 64, CONNECTIONS = 64, TIMEOUT_S = 10, MEMORY_BYTES = 32 * 1024 };

struct gw_http {
    struct MHD_Daemon *daemon;
    gw_acceptor *acceptor;
    int fd;
    gw_board *board;
};

/* Answers with `text`, which it frees. */
static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type,
                              char *text) {
    if (text == NULL) return MHD_NO;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_line(struct MHD_Connection *connection, unsigned status, const char *line) {
    char *text = NULL;
    if (asprintf(&text, "%s\n", line) < 0) return MHD_NO;
    return answer(connection, status, "text/plain; charset=utf-8", text);
}

static enum MHD_Result answer_health(struct MHD_Connection *connection, const gw_node_snapshot *snapshot) {
    if (snapshot->healthy) return answer_line(connection, MHD_HTTP_OK, "ok");
    return answer_line(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                       snapshot->phase[0] != '\0' ? snapshot->phase : "starting");
}

/* Answers in OpenMetrics where the client asks for it. */
static enum MHD_Result answer_metrics(struct MHD_Connection *connection, const gw_node_snapshot *snapshot) {
    const char *accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    gw_exposition_format format =
        gw_accept_openmetrics(accept) ? GW_EXPOSITION_OPENMETRICS : GW_EXPOSITION_TEXT;
    return answer(connection, MHD_HTTP_OK, gw_exposition_type(format), gw_snapshot_metrics(snapshot, format));
}

static enum MHD_Result serve(gw_http *http, struct MHD_Connection *connection, const char *path) {
    gw_node_snapshot *snapshot = malloc(sizeof *snapshot);
    if (snapshot == NULL) return MHD_NO;
    gw_board_copy(http->board, snapshot);
    enum MHD_Result result;
    if (strcmp(path, "/api/state") == 0)
        result = answer(connection, MHD_HTTP_OK, "application/json", gw_snapshot_json(snapshot));
    else if (strcmp(path, "/metrics") == 0)
        result = answer_metrics(connection, snapshot);
    else if (strcmp(path, "/healthz") == 0)
        result = answer_health(connection, snapshot);
    else
        result = answer_line(connection, MHD_HTTP_NOT_FOUND,
                             "not found; there are /api/state, /metrics and /healthz");
    free(snapshot);
    return result;
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **request) {
    (void)version;
    (void)upload;
    static int seen;
    if (*request == NULL) { /* libmicrohttpd calls first with the headers, and again for the answer */
        *request = &seen;
        return MHD_YES;
    }
    if (*upload_size != 0) { /* the request's body is ignored */
        *upload_size = 0;
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return answer_line(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD");
    return serve(context, connection, path);
}

/* Turns a peer away that takes this port for the one of another peer (--join). Any text that is no handshake
 * tells it so; the library would wait for the rest of a request. A connection is accepted when it has brought
 * something, as a rule (TCP_DEFER_ACCEPT). */
static bool turn_peer_away(int fd) {
    static const char text[] = "HTTP/1.0 400 Bad Request\r\n\r\nthis is the --http port of a Godwit peer\n";
    char first[1024];
    const size_t magic = sizeof GW_HANDSHAKE_MAGIC - 1;
    if (recv(fd, first, magic, MSG_PEEK | MSG_DONTWAIT) != (ssize_t)magic ||
        memcmp(first, GW_HANDSHAKE_MAGIC, magic) != 0)
        return false;
    while (recv(fd, first, sizeof first, MSG_DONTWAIT) > 0) {
        /* Bytes that are not read would break the connection off. */
    }
    send(fd, text, sizeof text - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
    return true;
}

/* Accepts a connection in place of libmicrohttpd, whose thread spins while there is no descriptor for a
 * new connection. The library closes a connection that it cannot add. */
static void accepted(void *context, int fd, const struct sockaddr *from, socklen_t bytes) {
    gw_http *http = context;
    if (!turn_peer_away(fd)) MHD_add_connection(http->daemon, fd, from, bytes);
}

/* Sets the error for a failed bind. */
static bool refused(const gw_addr *addr, int why, gw_err *err) {
    char text[GW_ADDR_TEXT];
    gw_addr_text(addr, text);
    const char *next = why == EACCES ? ": only root may use ports below 1024; give a higher one" : "";
    if (why != EADDRINUSE) return gw_fail_errno(err, why, "http: cannot listen on %s%s", text, next);
    return gw_fail(err, GW_E_IO,
                   "http: the port of %s is in use: another process listens there. Stop that process, or "
                   "give another --http [HOST:]PORT (port 0 takes a free one)",
                   text);
}

static bool bind_to(int fd, const gw_addr *addr, gw_addr *bound) {
    struct sockaddr_storage address;
    socklen_t bytes = gw_address_to_sockaddr(addr, &address);
    int on = 1, off = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* allows the port of a socket in TIME_WAIT */
    setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &(int){TIMEOUT_S}, sizeof(int));
    /* [::] is every address of both families, as with --listen. */
    if (addr->family == 6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, (struct sockaddr *)&address, bytes) != 0) return false;
    bytes = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) return false;
    *bound = gw_address_from_sockaddr((struct sockaddr *)&address);
    return true;
}

int gw_http_bind(const gw_addr *addr, gw_addr *bound, gw_err *err) {
    int family = addr->family == 6 ? AF_INET6 : AF_INET;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 && errno == EAFNOSUPPORT && family == AF_INET6 && gw_address_is_any(addr))
        return gw_http_bind(&(gw_addr){.family = 4, .port = addr->port}, bound, err);
    if (fd >= 0 && bind_to(fd, addr, bound)) return fd;
    refused(addr, errno, err);
    if (fd >= 0) close(fd);
    return -1;
}

static bool start(gw_http *http, gw_err *err) {
    /* By default the library uses select(), which is limited to 1024 descriptors, and a peer of a large
     * flock has more. With epoll it does not notice that a client has finished sending. */
    unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_USE_NO_LISTEN_SOCKET;
    errno = 0;
    http->daemon = MHD_start_daemon(flags, 0, NULL, NULL, handle, http, MHD_OPTION_CONNECTION_LIMIT,
                                    (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S,
                                    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_BYTES, MHD_OPTION_END);
    if (http->daemon == NULL) return gw_fail_errno(err, errno, "http: cannot start a server");
    http->acceptor = gw_acceptor_open(http->fd, accepted, http, err);
    return http->acceptor != NULL || gw_fail_in(err, "http");
}

gw_http *gw_http_open(int fd, gw_board *board, gw_err *err) {
    gw_http *http = calloc(1, sizeof *http);
    if (http == NULL) {
        gw_fail(err, GW_E_NOMEM, "http: out of memory");
        close(fd);
        return NULL;
    }
    http->fd = fd;
    http->board = board;
    bool listens = listen(fd, BACKLOG) == 0 || gw_fail_errno(err, errno, "http: cannot listen");
    if (listens && start(http, err)) return http;
    gw_http_close(http);
    return NULL;
}

void gw_http_close(gw_http *http) {
    if (http == NULL) return;
    gw_acceptor_close(http->acceptor);
    if (http->daemon != NULL) MHD_stop_daemon(http->daemon);
    if (http->fd >= 0) close(http->fd);
    free(http);
}
