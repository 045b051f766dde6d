#include "tools/godwit/flock/door.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/durable.h"
#include "net/link/listener.h"
#include "tools/godwit/flock/socket.h"
#include "tools/godwit/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 64, READ_BYTES = 64 << 10, MOST_BYTES = GW_MEMBER_DOOR_LINE_BYTES + GW_MEMBER_DOOR_BYTES };

#define PAUSE_NS UINT64_C(100000000)

typedef struct guest {
    struct gw_member_door *door;
    int fd;
    gw_watch watch;
    char *in; /* what has arrived and is not served yet */
    size_t in_length;
    json_t *request; /* whose line has arrived, and `wanted` bytes behind it not yet; NULL: there is none */
    size_t wanted;
    char *out;
    size_t out_at, out_length, out_room;
    gw_member_door_call *call; /* the one that is being served; further lines wait */
} guest;

struct gw_member_door_call {
    guest *client; /* NULL: it has gone */
};

struct gw_member_door {
    gw_loop *loop;
    int fd;
    gw_watch watch;
    gw_timer pause;
    char path[GW_PATH_BYTES];
    gw_member_door_serve *serve;
    void *context;
    guest *clients[GW_MEMBER_DOOR_CLIENTS];
    uint32_t count;
};

/* The member's side. */

static void drop(guest *c) {
    gw_member_door *door = c->door;
    if (c->call != NULL) c->call->client = NULL;
    gw_watch_remove(&c->watch);
    close(c->fd);
    for (uint32_t i = 0; i < door->count; i++) {
        if (door->clients[i] != c) continue;
        door->clients[i] = door->clients[--door->count];
        break;
    }
    json_decref(c->request);
    free(c->in);
    free(c->out);
    free(c);
}

static void put(guest *c, const void *bytes, size_t count) {
    if (c->out_length + count > c->out_room) {
        c->out_room = 2 * (c->out_length + count);
        c->out = realloc(c->out, c->out_room);
        GW_ASSERT_MEMORY(c->out != NULL);
    }
    if (count > 0) memcpy(c->out + c->out_length, bytes, count);
    c->out_length += count;
}

/* Writes what the socket takes. False: the client has gone. */
static bool write_out(guest *c) {
    while (c->out_at < c->out_length) {
        ssize_t done = send(c->fd, c->out + c->out_at, c->out_length - c->out_at, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            gw_watch_change(&c->watch, EPOLLIN | EPOLLOUT);
            return true;
        }
        if (done < 0) return false;
        c->out_at += (size_t)done;
    }
    c->out_at = c->out_length = 0;
    gw_watch_change(&c->watch, EPOLLIN);
    return true;
}

static void take_in(guest *c, size_t count) {
    c->in_length -= count;
    memmove(c->in, c->in + count, c->in_length);
}

/* Reads the next line, if it is whole. False: it is too long, or wants too much behind it. */
static bool read_line(guest *c) {
    char *end = c->in_length > 0 ? memchr(c->in, '\n', c->in_length) : NULL;
    size_t length = end != NULL ? (size_t)(end - c->in) : c->in_length;
    if (length > GW_MEMBER_DOOR_LINE_BYTES) return false;
    if (end == NULL) return true;
    c->request = json_loadb(c->in, length, 0, NULL);
    if (c->request == NULL) c->request = json_null(); /* it is answered as what is no object */
    take_in(c, length + 1);
    json_int_t wanted = json_integer_value(json_object_get(c->request, "bytes"));
    c->wanted = wanted > 0 ? (size_t)wanted : 0;
    return wanted >= 0 && wanted <= GW_MEMBER_DOOR_BYTES;
}

/* Serves the next request, if it has arrived and none is being served. False: the client is to be dropped. */
static bool serve_next(guest *c) {
    if (c->call != NULL || c->out_length > 0) return true;
    if (c->request == NULL && !read_line(c)) return false;
    if (c->request == NULL || c->in_length < c->wanted) return true;
    json_t *request = c->request;
    size_t count = c->wanted;
    gw_member_door_call *call = calloc(1, sizeof *call);
    GW_ASSERT_MEMORY(call != NULL);
    call->client = c;
    c->call = call;
    c->request = NULL;
    c->wanted = 0;
    if (json_is_object(request))
        c->door->serve(c->door->context, call, request, c->in, count); /* it may answer */
    else
        gw_member_door_fail(call, "a request is one line with a JSON object");
    json_decref(request);
    take_in(c, count);
    return true;
}

void gw_member_door_answer(gw_member_door_call *call, json_t *answer, const void *bytes, size_t count) {
    guest *c = call->client;
    free(call);
    if (c != NULL) {
        c->call = NULL;
        if (bytes != NULL) gw_json_count(answer, "bytes", count);
        char *line = gw_json_line(answer);
        GW_ASSERT_MEMORY(line != NULL);
        put(c, line, strlen(line));
        put(c, "\n", 1);
        if (bytes != NULL) put(c, bytes, count);
        free(line);
        gw_watch_change(&c->watch, EPOLLIN | EPOLLOUT); /* the loop writes it */
    }
    json_decref(answer);
}

void gw_member_door_fail(gw_member_door_call *call, const char *text) {
    json_t *answer = json_object();
    gw_json_text(answer, "error", text);
    gw_member_door_answer(call, answer, NULL, 0);
}

/* Reads what has arrived. False: the client has gone, or sends more than it may. */
static bool read_in(guest *c) {
    for (;;) {
        if (c->in_length > MOST_BYTES) return false;
        c->in = realloc(c->in, c->in_length + READ_BYTES);
        GW_ASSERT_MEMORY(c->in != NULL);
        ssize_t got = recv(c->fd, c->in + c->in_length, READ_BYTES, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
        if (got == 0) return false;
        c->in_length += (size_t)got;
    }
}

static void client_ready(void *context, uint32_t events) {
    guest *c = context;
    bool good = (events & (EPOLLERR | EPOLLHUP)) == 0 || (events & EPOLLIN) != 0;
    if (good && (events & EPOLLIN) != 0) good = read_in(c);
    if (good && c->out_length > 0) good = write_out(c);
    if (good) good = serve_next(c);
    if (!good) drop(c);
}

static void listen_again(void *context) {
    gw_member_door *door = context;
    gw_watch_change(&door->watch, EPOLLIN);
}

static void accept_one(void *context, uint32_t events) {
    gw_member_door *door = context;
    gw_err err;
    (void)events;
    int fd = accept4(door->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if (!gw_accept_lacks_resources(errno)) return;
        gw_watch_change(&door->watch, 0);
        if (!gw_timer_set(door->loop, &door->pause, gw_now_ns() + PAUSE_NS, listen_again, door, &err))
            listen_again(door);
        return;
    }
    guest *c = door->count < GW_MEMBER_DOOR_CLIENTS ? calloc(1, sizeof *c) : NULL;
    if (c == NULL) {
        close(fd);
        return;
    }
    *c = (guest){.door = door, .fd = fd};
    if (!gw_watch_add(door->loop, &c->watch, fd, EPOLLIN, client_ready, c, &err)) {
        gw_log(GW_WARN, "flock", "%s", err.text);
        close(fd);
        free(c);
        return;
    }
    door->clients[door->count++] = c;
}

gw_member_door *gw_member_door_open(gw_loop *loop, const char *directory, gw_member_door_serve *serve,
                                    void *context, gw_err *err) {
    gw_member_door *door = calloc(1, sizeof *door);
    GW_ASSERT_MEMORY(door != NULL);
    *door = (gw_member_door){.loop = loop, .serve = serve, .context = context};
    door->fd = gw_durable_path(door->path, err, "%s/" GW_MEMBER_DOOR_NAME, directory)
                   ? gw_flock_listen(directory, GW_MEMBER_DOOR_NAME, SOCK_STREAM, BACKLOG, err)
                   : -1;
    if (door->fd >= 0 && gw_watch_add(loop, &door->watch, door->fd, EPOLLIN, accept_one, door, err))
        return door;
    if (door->fd >= 0) close(door->fd);
    free(door);
    return NULL;
}

void gw_member_door_close(gw_member_door *door) {
    if (door == NULL) return;
    while (door->count > 0) {
        guest *c = door->clients[0];
        if (c->out_length > 0) write_out(c);
        drop(c);
    }
    gw_timer_cancel(&door->pause);
    gw_watch_remove(&door->watch);
    close(door->fd);
    unlink(door->path);
    free(door);
}

/* The client's side. */

bool gw_member_door_connect(const char *directory, gw_member_door_client *client, gw_err *err) {
    client->fd = gw_flock_knock(directory, GW_MEMBER_DOOR_NAME, SOCK_STREAM, err);
    if (client->fd >= 0 || err->code != GW_E_NOTFOUND) return client->fd >= 0;
    return gw_fail(err, GW_E_NOTFOUND,
                   "no member of a flock runs on this machine in %s: start one with 'godwit up', or name its "
                   "directory with --dir",
                   directory);
}

void gw_member_door_disconnect(gw_member_door_client *client) {
    if (client->fd >= 0) close(client->fd);
    client->fd = -1;
}

static bool send_all(int fd, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t done = send(fd, bytes, count, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return false;
        bytes += done;
        count -= (size_t)done;
    }
    return true;
}

/* Reads until there are `wanted` bytes or, with 0, a whole line. */
static bool receive(int fd, char **text, size_t *length, size_t wanted, uint64_t end_ns, gw_err *err) {
    for (;;) {
        if (wanted != 0 ? *length >= wanted : *length > 0 && memchr(*text, '\n', *length) != NULL)
            return true;
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        uint64_t now = gw_now_ns();
        if (now >= end_ns) return gw_fail(err, GW_E_TIMEOUT, "the member does not answer");
        uint64_t wait_ms = (end_ns - now) / 1000000 + 1;
        int found = poll(&ready, 1, wait_ms > 60000 ? 60000 : (int)wait_ms);
        if (found <= 0) continue;
        *text = realloc(*text, *length + READ_BYTES);
        GW_ASSERT_MEMORY(*text != NULL);
        ssize_t got = recv(fd, *text + *length, READ_BYTES, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return gw_fail(err, GW_E_PEER, "the member has ended before it answered");
        *length += (size_t)got;
    }
}

/* Reads an answer: its object and, behind it, its bytes. */
static json_t *read_answer(int fd, uint64_t end_ns, void **bytes, size_t *count, gw_err *err) {
    char *text = NULL;
    size_t length = 0;
    json_t *answer = NULL;
    if (receive(fd, &text, &length, 0, end_ns, err)) {
        size_t line = (size_t)((char *)memchr(text, '\n', length) - text);
        answer = json_loadb(text, line, 0, NULL);
        size_t more = (size_t)json_integer_value(json_object_get(answer, "bytes"));
        if (!json_is_object(answer)) {
            json_decref(answer);
            answer = NULL;
            gw_fail(err, GW_E_PEER, "the member's answer makes no sense");
        } else if (more > 0 && !receive(fd, &text, &length, line + 1 + more, end_ns, err)) {
            json_decref(answer);
            answer = NULL;
        } else if (bytes != NULL && more > 0) {
            *count = more;
            memmove(text, text + line + 1, more);
            *bytes = text;
            return answer;
        }
    }
    free(text);
    return answer;
}

/* Sends a request, and reads the answer to it. */
static json_t *ask(gw_member_door_client *client, json_t *request, const void *given, size_t given_count,
                   uint64_t patience_ns, void **bytes, size_t *count, gw_err *err) {
    char *line = gw_json_line(request);
    json_decref(request);
    GW_ASSERT_MEMORY(line != NULL);
    bool sent = send_all(client->fd, line, strlen(line)) && send_all(client->fd, "\n", 1) &&
                send_all(client->fd, given, given_count);
    free(line);
    if (!sent) {
        gw_fail(err, GW_E_PEER, "the member has ended, or did not answer before");
        return NULL;
    }
    json_t *answer = read_answer(client->fd, gw_now_ns() + patience_ns, bytes, count, err);
    if (answer == NULL)
        shutdown(client->fd, SHUT_RDWR); /* an answer that comes late is none to another request */
    const char *text = json_string_value(json_object_get(answer, "error"));
    if (answer == NULL || text == NULL) return answer;
    gw_fail(err, GW_E_USAGE, "%s", text);
    json_decref(answer);
    return NULL;
}

json_t *gw_member_door_ask(gw_member_door_client *client, json_t *request, uint64_t patience_ns, void **bytes,
                           size_t *count, gw_err *err) {
    if (bytes != NULL) {
        *bytes = NULL;
        *count = 0;
    }
    return ask(client, request, NULL, 0, patience_ns, bytes, count, err);
}

json_t *gw_member_door_give(gw_member_door_client *client, json_t *request, const void *bytes, size_t count,
                            uint64_t patience_ns, gw_err *err) {
    GW_ASSERT(count > 0 && count <= GW_MEMBER_DOOR_BYTES);
    gw_json_count(request, "bytes", count);
    return ask(client, request, bytes, count, patience_ns, NULL, NULL, err);
}
