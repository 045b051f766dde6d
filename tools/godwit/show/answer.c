#include "tools/godwit/show/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const policies[] = {
    [GW_ANSWER_PAGE_OF_FILES] =
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'",
    [GW_ANSWER_PAGE_ALONE] =
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'",
};

enum MHD_Result gw_answer_queue(struct MHD_Connection *connection, unsigned status, gw_answer_page page,
                                const char *type, const char *cache, struct MHD_Response *response) {
    if (response == NULL) return MHD_NO;
    if (type != NULL) MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, cache);
    MHD_add_response_header(response, "Content-Security-Policy", policies[page]);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (status == MHD_HTTP_TOO_MANY_REQUESTS)
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result gw_answer_text(struct MHD_Connection *connection, unsigned status, gw_answer_page page,
                               const char *type, char *text) {
    if (text == NULL) return MHD_NO;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) free(text);
    return gw_answer_queue(connection, status, page, type, "no-store", response);
}

enum MHD_Result gw_answer_line(struct MHD_Connection *connection, unsigned status, const char *line) {
    char *text = NULL;
    if (asprintf(&text, "%s\n", line) < 0) return MHD_NO;
    return gw_answer_text(connection, status, GW_ANSWER_PAGE_ALONE, "text/plain; charset=utf-8", text);
}
