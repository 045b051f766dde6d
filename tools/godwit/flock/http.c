#include "tools/godwit/flock/http.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "tools/godwit/show/answer.h"
#include "tools/godwit/show/host.h"
#include "tools/godwit/text/json.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS = 32, BACKLOG = 32, TIMEOUT_S = 10, HOST_NAME = 256, MEMORY_BYTES = 32 << 10 };

#define FRESH_NS    UINT64_C(1000000000) /* what is shown is not older */
#define PATIENCE_NS UINT64_C(5000000000) /* with a loop that is busy */

struct gw_queue_http {
    gw_loop *loop;
    int fd;
    gw_queue_http_make *make;
    void *context;
    struct MHD_Daemon *daemon;
    char machine[HOST_NAME];
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t made;
    json_t *queue; /* NULL: nothing was made yet */
    uint64_t made_ns;
    bool asked; /* the loop is to make it */
    bool closed;
};

/* The page. */

static void put_text(FILE *out, const char *text) {
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static void put_cell(FILE *out, const char *text) {
    fputs("<td>", out);
    put_text(out, text);
    fputs("</td>", out);
}

static void put_count(FILE *out, const json_t *object, const char *key) {
    fprintf(out, "<td class=n>%lld</td>", (long long)json_integer_value(json_object_get(object, key)));
}

static void put_node(FILE *out, const json_t *node) {
    fprintf(out, "<tr class=\"");
    put_text(out, strcmp(text_of(node, "state"), "ready") == 0 ? "good" : "bad");
    fputs("\">", out);
    put_cell(out, text_of(node, "name"));
    put_cell(out, text_of(node, "state"));
    put_count(out, node, "cores");
    put_count(out, node, "memory_mib");
    put_count(out, node, "gpus");
    put_count(out, node, "jobs");
    fputs("</tr>\n", out);
}

static void put_job(FILE *out, const json_t *job) {
    const json_t *node;
    size_t i;
    fputs("<tr>", out);
    put_cell(out, text_of(job, "name"));
    fprintf(out, "<td class=id>%.8s</td>", text_of(job, "id"));
    put_cell(out, text_of(job, "kind"));
    fputs("<td class=\"", out);
    put_text(out, text_of(job, "state"));
    fputs("\">", out);
    put_text(out, text_of(job, "state"));
    int64_t tasks = json_integer_value(json_object_get(job, "tasks"));
    if (tasks > 0)
        fprintf(out, " %lld/%lld", (long long)json_integer_value(json_object_get(job, "tasks_done")),
                (long long)tasks);
    fputs("</td><td>", out);
    json_array_foreach(json_object_get(job, "nodes"), i, node) {
        if (i > 0) fputs(", ", out);
        put_text(out, json_string_value(node));
    }
    put_text(out, text_of(job, "reason"));
    fputs("</td></tr>\n", out);
}

char *gw_queue_http_page(const json_t *queue) {
    const json_t *one;
    char *text = NULL;
    size_t size, i;
    FILE *out = open_memstream(&text, &size);
    GW_ASSERT_MEMORY(out != NULL);
    fputs("<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport "
          "content=\"width=device-width\">"
          "<meta http-equiv=refresh content=5><title>",
          out);
    put_text(out, text_of(queue, "flock"));
    fputs(": queue</title>\n<style>\n"
          ":root{color-scheme:light dark;font:15px/1.45 system-ui,sans-serif}\n"
          "body{margin:1.2rem auto;max-width:64rem;padding:0 1rem}\n"
          "h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:1.6rem}\n"
          "div{overflow-x:auto}table{border-collapse:collapse;width:100%}\n"
          "th,td{text-align:left;padding:.25rem .7rem .25rem 0;border-bottom:1px solid #8884}\n"
          ".n{text-align:right;font-variant-numeric:tabular-nums}.id{font-family:ui-monospace,monospace}\n"
          ".bad td:nth-child(2),.failed{font-weight:600;text-decoration:underline}.running{font-weight:600}\n"
          "</style>\n<h1>Flock ",
          out);
    put_text(out, text_of(queue, "flock"));
    fputs("</h1><p>As ", out);
    put_text(out, text_of(queue, "node"));
    fputs(" knows it. The page loads itself again every five "
          "seconds.</p>\n<h2>Nodes</h2><div><table><tr><th>Node<th>"
          "State<th class=n>Cores<th class=n>MiB<th class=n>GPUs<th class=n>Jobs</tr>\n",
          out);
    json_array_foreach(json_object_get(queue, "nodes"), i, one) put_node(out, one);
    fputs("</table></div>\n<h2>Jobs</h2><div><table><tr><th>Job<th>ID<th>Kind<th>State<th>Nodes, or why it "
          "waits</tr>\n",
          out);
    json_array_foreach(json_object_get(queue, "jobs"), i, one) put_job(out, one);
    fputs("</table></div>\n", out);
    if (json_array_size(json_object_get(queue, "jobs")) == 0) fputs("<p>There are no jobs.</p>\n", out);
    fputs("</html>\n", out);
    GW_ASSERT_MEMORY(fclose(out) == 0);
    return text;
}

/* The loop's side. */

static void make_queue(void *context) {
    gw_queue_http *http = context;
    json_t *queue = http->make(http->context);
    pthread_mutex_lock(&http->lock);
    json_decref(http->queue);
    http->queue = queue;
    http->made_ns = gw_now_ns();
    http->asked = false;
    pthread_cond_broadcast(&http->made);
    pthread_mutex_unlock(&http->lock);
}

/* The server's thread. */

/* What is shown, which the caller releases; NULL: the loop does not make it in time. */
static json_t *take_queue(gw_queue_http *http) {
    gw_err err;
    uint64_t begun_ns = gw_now_ns();
    pthread_mutex_lock(&http->lock);
    bool stale = http->queue == NULL || begun_ns > http->made_ns + FRESH_NS;
    if (stale && !http->asked && !http->closed)
        http->asked = gw_loop_post(http->loop, make_queue, http, &err);
    while (stale && !http->closed && http->made_ns < begun_ns && gw_now_ns() < begun_ns + PATIENCE_NS)
        gw_cond_wait_until(&http->made, &http->lock, begun_ns + PATIENCE_NS);
    json_t *queue = json_deep_copy(http->queue); /* counts of references are not for two threads */
    pthread_mutex_unlock(&http->lock);
    return queue;
}

/* Answers with `text`, which it frees. */
static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type,
                              char *text) {
    return gw_answer_text(connection, status, GW_ANSWER_PAGE_ALONE, type, text);
}

static enum MHD_Result serve(gw_queue_http *http, struct MHD_Connection *connection, const char *path) {
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    bool page = strcmp(path, "/") == 0, health = strcmp(path, "/healthz") == 0;
    if (!health && !gw_host_is_ours(host, http->machine))
        return gw_answer_line(
            connection, MHD_HTTP_FORBIDDEN,
            "the name in the address may be anybody's; use this machine's name or its address");
    if (!page && !health && strcmp(path, "/api/queue") != 0)
        return gw_answer_line(connection, MHD_HTTP_NOT_FOUND,
                              "not found; there are /, /api/queue and /healthz");
    json_t *queue = take_queue(http);
    if (queue == NULL)
        return gw_answer_line(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "the member is busy, or ends");
    enum MHD_Result result;
    if (page)
        result = answer(connection, MHD_HTTP_OK, "text/html; charset=utf-8", gw_queue_http_page(queue));
    else if (!health)
        result = answer(connection, MHD_HTTP_OK, "application/json", gw_json_line(queue));
    else if (json_is_true(json_object_get(queue, "ready")))
        result = gw_answer_line(connection, MHD_HTTP_OK, "ok");
    else
        result = gw_answer_line(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "this node takes no jobs");
    json_decref(queue);
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
        return gw_answer_line(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD");
    return serve(context, connection, path);
}

gw_queue_http *gw_queue_http_open(gw_loop *loop, int fd, gw_queue_http_make *make, void *context,
                                  gw_err *err) {
    gw_queue_http *http = calloc(1, sizeof *http);
    GW_ASSERT_MEMORY(http != NULL);
    *http = (gw_queue_http){.loop = loop, .fd = fd, .make = make, .context = context};
    pthread_mutex_init(&http->lock, NULL);
    gw_cond_init(&http->made);
    gethostname(http->machine, sizeof http->machine - 1);
    errno = 0;
    if (listen(fd, BACKLOG) == 0)
        http->daemon = MHD_start_daemon(
            MHD_USE_POLL_INTERNAL_THREAD, 0, NULL, NULL, handle, http, MHD_OPTION_LISTEN_SOCKET, fd,
            MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
            (unsigned)TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_BYTES, MHD_OPTION_END);
    if (http->daemon != NULL) return http;
    gw_fail_errno(err, errno, "http: cannot start a server");
    close(fd);
    http->fd = -1;
    gw_queue_http_close(http);
    return NULL;
}

void gw_queue_http_close(gw_queue_http *http) {
    if (http == NULL) return;
    pthread_mutex_lock(&http->lock);
    http->closed = true;
    pthread_cond_broadcast(&http->made);
    pthread_mutex_unlock(&http->lock);
    if (http->daemon != NULL) MHD_stop_daemon(http->daemon); /* it closes the socket */
    while (http->asked) gw_loop_turn(http->loop, 0);         /* what was posted uses this */
    json_decref(http->queue);
    pthread_cond_destroy(&http->made);
    pthread_mutex_destroy(&http->lock);
    free(http);
}
