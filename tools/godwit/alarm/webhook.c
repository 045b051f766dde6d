#include "tools/godwit/alarm/webhook.h"

#include "core/os/library.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Constants of the interface of libcurl, which never change. */
enum {
    OPT_WRITEDATA = 10001,
    OPT_URL = 10002,
    OPT_ERRORBUFFER = 10010,
    OPT_POSTFIELDS = 10015,
    OPT_USERAGENT = 10018,
    OPT_HTTPHEADER = 10023,
    OPT_NOSIGNAL = 99,
    OPT_TIMEOUT_MS = 155,
    OPT_CONNECTTIMEOUT_MS = 156,
    OPT_WRITEFUNCTION = 20011,
    OPT_PROTOCOLS = 181,
    PROTO_HTTP_AND_HTTPS = 3,
    INFO_RESPONSE_CODE = 0x200002,
    GLOBAL_ALL = 3,
    ERROR_BYTES = 256,
};

typedef struct curl_api {
    int (*global_init)(long flags);
    void *(*easy_init)(void);
    int (*easy_setopt)(void *easy, int option, ...);
    int (*easy_perform)(void *easy);
    int (*easy_getinfo)(void *easy, int info, ...);
    void (*easy_cleanup)(void *easy);
    const char *(*easy_strerror)(int code);
    void *(*slist_append)(void *list, const char *text);
    void (*slist_free_all)(void *list);
} curl_api;

#define CURL(field, symbol)                                                                                  \
    { #symbol, offsetof(curl_api, field), false }
static const gw_library_function functions[] = {
    CURL(global_init, curl_global_init),       CURL(easy_init, curl_easy_init),
    CURL(easy_setopt, curl_easy_setopt),       CURL(easy_perform, curl_easy_perform),
    CURL(easy_getinfo, curl_easy_getinfo),     CURL(easy_cleanup, curl_easy_cleanup),
    CURL(easy_strerror, curl_easy_strerror),   CURL(slist_append, curl_slist_append),
    CURL(slist_free_all, curl_slist_free_all),
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the next two */
static bool opened;
static curl_api curl;

static bool open_curl(gw_err *err) {
    static const char *const folders[] = {NULL};
    static const char *const files[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    char path[GW_LIBRARY_PATH];
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof files / sizeof files[0] && !opened; i++) {
        const gw_library_wanted wanted = {.file = files[i],
                                          .folders = folders,
                                          .advice = "install the package libcurl4",
                                          .functions = functions,
                                          .function_count = sizeof functions / sizeof functions[0]};
        gw_err why;
        bool last = i + 1 == sizeof files / sizeof files[0];
        opened = gw_library_open(&wanted, &curl, path, last ? &why : err);
        if (opened && curl.global_init(GLOBAL_ALL) != 0) {
            opened = false;
            gw_fail(err, GW_E_UNSUPPORTED, "libcurl cannot be initialized");
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return opened;
}

bool gw_webhook_check(const char *url, gw_err *err) {
    bool secure = strncmp(url, "https://", 8) == 0, plain = strncmp(url, "http://", 7) == 0;
    const char *host = url + (secure ? 8 : 7);
    for (const char *at = url; *at != '\0'; at++)
        if ((unsigned char)*at <= ' ' || *at == 0x7f)
            return gw_fail(err, GW_E_USAGE, "the URL has a space or a control character in it");
    if (!(secure || plain) || host[0] == '\0' || host[0] == '/' || host[0] == ':')
        return gw_fail(err, GW_E_USAGE, "'%.60s' is no URL that begins with https:// or http://", url);
    return open_curl(err);
}

/* The answer's body is not needed. */
static size_t drop(char *bytes, size_t size, size_t count, void *context) {
    (void)bytes;
    (void)context;
    return size * count;
}

/* "https://hooks.example.org", without what may be secret. */
static void origin_of(const char *url, char *text, size_t size) {
    const char *host = strstr(url, "://") + 3;
    const char *at = strchr(host, '@'), *end = host + strcspn(host, "/?#");
    if (at != NULL && at < end) host = at + 1;
    snprintf(text, size, "%.*s", (int)(end - host), host);
}

bool gw_webhook_post(const char *url, const char *json, long timeout_ms, gw_err *err) {
    char why[ERROR_BYTES] = "", origin[200];
    long status = 0;
    origin_of(url, origin, sizeof origin);
    if (!open_curl(err)) return false;
    void *easy = curl.easy_init();
    void *headers = easy != NULL ? curl.slist_append(NULL, "Content-Type: application/json") : NULL;
    if (headers == NULL) {
        if (easy != NULL) curl.easy_cleanup(easy);
        return gw_fail(err, GW_E_NOMEM, "webhook: out of memory");
    }
    curl.easy_setopt(easy, OPT_ERRORBUFFER, why);
    curl.easy_setopt(easy, OPT_NOSIGNAL, 1L);
    curl.easy_setopt(easy, OPT_PROTOCOLS, (long)PROTO_HTTP_AND_HTTPS);
    curl.easy_setopt(easy, OPT_TIMEOUT_MS, timeout_ms);
    curl.easy_setopt(easy, OPT_CONNECTTIMEOUT_MS, timeout_ms / 2);
    curl.easy_setopt(easy, OPT_USERAGENT, "godwit/" GODWIT_VERSION);
    curl.easy_setopt(easy, OPT_URL, url);
    curl.easy_setopt(easy, OPT_HTTPHEADER, headers);
    curl.easy_setopt(easy, OPT_POSTFIELDS, json);
    curl.easy_setopt(easy, OPT_WRITEFUNCTION, drop);
    int code = curl.easy_perform(easy);
    if (code == 0) curl.easy_getinfo(easy, INFO_RESPONSE_CODE, &status);
    curl.slist_free_all(headers);
    curl.easy_cleanup(easy);
    if (code != 0)
        return gw_fail(err, GW_E_IO, "%s: %s", origin, why[0] != '\0' ? why : curl.easy_strerror(code));
    return (status >= 200 && status < 300) ||
           gw_fail(err, GW_E_IO, "%s answered with status %ld", origin, status);
}
