#include "tools/godwit/show/http.h"

#include "core/os/clock.h"
#include "core/os/priority.h"
#include "net/loop/address.h"
#include "net/secure/secure.h"
#include "tools/godwit/show/accept.h"
#include "tools/godwit/show/answer.h"
#include "tools/godwit/show/host.h"
#include "tools/godwit/show/page.h"
#include "tools/godwit/show/stream.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/thread/acceptor.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum { BACKLOG = 64, CONNECTIONS = 64, TIMEOUT_S = 10, MEMORY_BYTES = 32 * 1024 };
/* What a client that does not read may hold in the kernel, and how long one that is gone is waited for. */
enum { SEND_BYTES = 64 * 1024, GONE_MS = 30000 };
enum { ETAG = 19 /* bytes of the text */, HOST_NAME = 256 };
/* An answer that takes more of a processor than this counts as several. */
#define TOKEN_S 0.005

/* A file of the page, as it is sent. */
typedef struct page_file {
    char etag[ETAG];
    void *packed; /* compressed by gzip; NULL: memory has run out */
    size_t packed_length;
} page_file;

struct gw_http {
    struct MHD_Daemon *daemon;
    gw_acceptor *acceptor;
    int fd;
    gw_api_sources sources;
    gw_streams *streams;
    page_file files[GW_PAGE_FILES];
    char machine[HOST_NAME];
    /* The server's thread: */
    uint32_t requests_per_s; /* 0: no bound */
    double tokens;           /* requests that may be answered now; below 0 after a large answer */
    uint64_t tokens_ns;      /* as of this time */
    bool lowered;            /* the thread's priority */
};

/* Answers with `text`, which it frees. */
static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type,
                              char *text) {
    return gw_answer_text(connection, status, GW_ANSWER_PAGE_OF_FILES, type, text);
}

static enum MHD_Result answer_json(struct MHD_Connection *connection, char *text) {
    return answer(connection, MHD_HTTP_OK, "application/json", text);
}

static enum MHD_Result answer_health(struct MHD_Connection *connection, const gw_node_snapshot *snapshot) {
    if (snapshot->healthy) return gw_answer_line(connection, MHD_HTTP_OK, "ok");
    return gw_answer_line(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                          snapshot->phase[0] != '\0' ? snapshot->phase : "starting");
}

/* Answers in OpenMetrics where the client asks for it. */
static enum MHD_Result answer_metrics(struct MHD_Connection *connection, const gw_node_snapshot *snapshot) {
    const char *accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    gw_exposition_format format =
        gw_accept_openmetrics(accept) ? GW_EXPOSITION_OPENMETRICS : GW_EXPOSITION_TEXT;
    return answer(connection, MHD_HTTP_OK, gw_exposition_type(format), gw_snapshot_metrics(snapshot, format));
}

/* The page. */

static const gw_page_file *find_page_file(const char *path, uint32_t *index) {
    if (strcmp(path, "/") == 0) path = "/index.html";
    for (*index = 0; *index < GW_PAGE_FILES; (*index)++)
        if (strcmp(gw_page_files[*index].path, path) == 0) return &gw_page_files[*index];
    return NULL;
}

static enum MHD_Result answer_file(const gw_http *http, struct MHD_Connection *connection, uint32_t index) {
    const gw_page_file *file = &gw_page_files[index];
    const page_file *sent = &http->files[index];
    const char *has = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_NONE_MATCH);
    const char *takes =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    bool same = has != NULL && strstr(has, sent->etag) != NULL;
    bool packed = !same && sent->packed != NULL && takes != NULL && strstr(takes, "gzip") != NULL;
    const void *bytes = same ? "" : packed ? sent->packed : file->bytes;
    size_t length = same ? 0 : packed ? sent->packed_length : file->length;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(length, (void *)(uintptr_t)bytes, MHD_RESPMEM_PERSISTENT);
    if (response == NULL) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, sent->etag);
    MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    if (packed) MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    return gw_answer_queue(connection, same ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK, GW_ANSWER_PAGE_OF_FILES,
                           same ? NULL : file->type, "no-cache", response);
}

/* Compresses a file of the page; without memory it is sent as it is. */
static void pack(const gw_page_file *file, page_file *sent) {
    enum { GZIP = 16, WINDOW = 15, MEMORY = 9 };
    uint64_t sum;
    z_stream z = {0};
    gw_hash hash;
    gw_blake2b(file->bytes, file->length, hash.bytes, sizeof hash.bytes);
    memcpy(&sum, hash.bytes, sizeof sum);
    snprintf(sent->etag, sizeof sent->etag, "\"%016" PRIx64 "\"", sum);
    if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, WINDOW + GZIP, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
        return;
    size_t room = deflateBound(&z, file->length);
    sent->packed = malloc(room);
    z.next_in = (Bytef *)(uintptr_t)file->bytes;
    z.avail_in = (uInt)file->length;
    z.next_out = sent->packed;
    z.avail_out = (uInt)room;
    if (sent->packed != NULL && deflate(&z, Z_FINISH) != Z_STREAM_END) {
        free(sent->packed);
        sent->packed = NULL;
    }
    sent->packed_length = z.total_out;
    deflateEnd(&z);
}

/* The API. */

/* Reads a whole number of the query; `value` stays where it is not there. False: it is no number. */
static bool read_number(struct MHD_Connection *connection, const char *key, uint64_t *value) {
    const char *text = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, key);
    return text == NULL || gw_number_read(text, 0, INT64_MAX, value);
}

static enum MHD_Result answer_series(const gw_http *http, struct MHD_Connection *connection) {
    gw_api_range range = {.keys = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "keys"),
                          .to = UINT64_MAX};
    uint64_t points = GW_API_POINTS;
    if (!read_number(connection, "from", &range.from) || !read_number(connection, "to", &range.to) ||
        !read_number(connection, "points", &points) || points < 1 || points > GW_LEVELS_POINTS)
        return gw_answer_line(connection, MHD_HTTP_BAD_REQUEST,
                              "from and to are steps, whole numbers, and points is from 1 to 2000");
    range.points = (uint32_t)points;
    return answer_json(connection, gw_api_series(&http->sources, &range));
}

/* Answers with the lines behind the number that the query gives. */
static enum MHD_Result answer_lines(const gw_http *http, struct MHD_Connection *connection,
                                    char *(*text_of)(const gw_api_sources *sources, uint64_t since)) {
    uint64_t since = 0;
    if (!read_number(connection, "since", &since))
        return gw_answer_line(connection, MHD_HTTP_BAD_REQUEST, "since is the number of a line");
    return answer_json(connection, text_of(&http->sources, since));
}

static enum MHD_Result answer_stream(gw_http *http, struct MHD_Connection *connection) {
    const char *last_id = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Last-Event-ID");
    struct MHD_Response *response = gw_streams_response(http->streams, connection, last_id);
    if (response == NULL)
        return gw_answer_line(
            connection, MHD_HTTP_SERVICE_UNAVAILABLE,
            "as many read this stream as are served; close another page, or ask another peer");
    return gw_answer_queue(connection, MHD_HTTP_OK, GW_ANSWER_PAGE_OF_FILES,
                           "text/event-stream; charset=utf-8", "no-store", response);
}

static enum MHD_Result serve_snapshot(gw_http *http, struct MHD_Connection *connection, const char *path) {
    gw_node_snapshot *snapshot = malloc(sizeof *snapshot);
    if (snapshot == NULL) return MHD_NO;
    gw_board_copy(http->sources.board, snapshot);
    enum MHD_Result result;
    if (strcmp(path, "/api/state") == 0)
        result = answer_json(connection, gw_snapshot_json(snapshot));
    else if (strcmp(path, "/metrics") == 0)
        result = answer_metrics(connection, snapshot);
    else
        result = answer_health(connection, snapshot);
    free(snapshot);
    return result;
}

static bool is_any_of(const char *path, const char *const *list) {
    while (*list != NULL && strcmp(path, *list) != 0) list++;
    return *list != NULL;
}

/* Takes the right to answer one more request. */
static bool take_token(gw_http *http) {
    uint64_t now = gw_now_ns();
    double most = 2.0 * http->requests_per_s;
    if (http->requests_per_s == 0) return true;
    http->tokens += (double)(now - http->tokens_ns) * 1e-9 * http->requests_per_s;
    if (http->tokens_ns == 0 || http->tokens > most) http->tokens = most;
    http->tokens_ns = now;
    if (http->tokens <= 0) return false;
    http->tokens--;
    return true;
}

static double processor_s(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

static enum MHD_Result serve_api(gw_http *http, struct MHD_Connection *connection, const char *path) {
    if (strcmp(path, "/api/peers") == 0) return answer_json(connection, gw_api_peers(&http->sources));
    if (strcmp(path, "/api/series") == 0) return answer_series(http, connection);
    if (strcmp(path, "/api/events") == 0) return answer_lines(http, connection, gw_api_events);
    if (strcmp(path, "/api/log") == 0) return answer_lines(http, connection, gw_api_log);
    if (strcmp(path, "/api/stream") == 0) return answer_stream(http, connection);
    return gw_answer_line(
        connection, MHD_HTTP_NOT_FOUND,
        "not found; there are /, /api/state, /api/peers, /api/series, /api/events, /api/log, "
        "/api/stream, /metrics and /healthz");
}

static enum MHD_Result serve(gw_http *http, struct MHD_Connection *connection, const char *path) {
    static const char *const of_monitors[] = {"/metrics", "/healthz", NULL};
    static const char *const of_snapshot[] = {"/api/state", "/metrics", "/healthz", NULL};
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    uint32_t index;
    if (!is_any_of(path, of_monitors) && !gw_host_is_ours(host, http->machine))
        return gw_answer_line(
            connection, MHD_HTTP_FORBIDDEN,
            "the name in the address may be anybody's; use this machine's name or its address");
    if (strcmp(path, "/healthz") != 0 && !take_token(http))
        return gw_answer_line(connection, MHD_HTTP_TOO_MANY_REQUESTS,
                              "too many requests; try again in a second");
    double begin = processor_s();
    enum MHD_Result result;
    if (is_any_of(path, of_snapshot))
        result = serve_snapshot(http, connection, path);
    else if (find_page_file(path, &index) != NULL)
        result = answer_file(http, connection, index);
    else
        result = serve_api(http, connection, path);
    if (strcmp(path, "/healthz") != 0) http->tokens -= (processor_s() - begin) / TOKEN_S;
    return result;
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **request) {
    (void)version;
    (void)upload;
    static int seen;
    gw_http *http = context;
    if (!http->lowered) gw_priority_lower();
    http->lowered = true;
    if (*request == NULL) { /* libmicrohttpd calls first with the headers, and again for the answer */
        *request = &seen;
        return MHD_YES;
    }
    if (*upload_size != 0) { /* the request's body is ignored */
        *upload_size = 0;
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return gw_answer_line(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD");
    return serve(http, connection, path);
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
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){SEND_BYTES}, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &(unsigned){GONE_MS}, sizeof(unsigned));
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
    unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET;
    errno = 0;
    http->daemon = MHD_start_daemon(flags, 0, NULL, NULL, handle, http, MHD_OPTION_CONNECTION_LIMIT,
                                    (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S,
                                    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_BYTES, MHD_OPTION_END);
    if (http->daemon == NULL) return gw_fail_errno(err, errno, "http: cannot start a server");
    http->acceptor = gw_acceptor_open(http->fd, accepted, http, err);
    return http->acceptor != NULL || gw_fail_in(err, "http");
}

gw_http *gw_http_open(int fd, const gw_api_sources *sources, uint32_t requests_per_s, gw_err *err) {
    gw_http *http = calloc(1, sizeof *http);
    if (http == NULL) {
        gw_fail(err, GW_E_NOMEM, "http: out of memory");
        close(fd);
        return NULL;
    }
    http->fd = fd;
    http->sources = *sources;
    http->requests_per_s = requests_per_s;
    gethostname(http->machine, sizeof http->machine - 1);
    for (uint32_t i = 0; i < GW_PAGE_FILES; i++) pack(&gw_page_files[i], &http->files[i]);
    http->streams = gw_streams_open(&http->sources, err);
    bool streams = http->streams != NULL || gw_fail_in(err, "http");
    bool listens = streams && (listen(fd, BACKLOG) == 0 || gw_fail_errno(err, errno, "http: cannot listen"));
    if (listens && start(http, err)) return http;
    gw_http_close(http);
    return NULL;
}

void gw_http_close(gw_http *http) {
    if (http == NULL) return;
    gw_acceptor_close(http->acceptor);
    gw_streams_stop(http->streams);
    if (http->daemon != NULL) MHD_stop_daemon(http->daemon);
    gw_streams_close(http->streams);
    if (http->fd >= 0) close(http->fd);
    for (uint32_t i = 0; i < GW_PAGE_FILES; i++) free(http->files[i].packed);
    free(http);
}
