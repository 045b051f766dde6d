/* Answers of HTTP servers to browsers and programs (libmicrohttpd): the headers that all of them have. No page of another site
 * may show or read what is here, and the page itself loads nothing from elsewhere. Thread: the server's. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_ANSWER_H
#define GODWIT_TOOLS_GODWIT_SHOW_ANSWER_H

#include <microhttpd.h>

/* What a page may load and do (Content-Security-Policy). */
typedef enum gw_answer_page {
    GW_ANSWER_PAGE_OF_FILES, /* scripts, styles and images of this server, which it may ask for more */
    GW_ANSWER_PAGE_ALONE,    /* it has its styles itself, and no script */
} gw_answer_page;

/* Queues a response, which it releases; NULL fails. `type` may be NULL. `cache` is the value of Cache-Control. */
enum MHD_Result gw_answer_queue(struct MHD_Connection *connection, unsigned status, gw_answer_page page,
                                const char *type, const char *cache, struct MHD_Response *response);
/* Answers with `text`, which it frees, and which nobody stores; NULL fails. */
enum MHD_Result gw_answer_text(struct MHD_Connection *connection, unsigned status, gw_answer_page page,
                               const char *type, char *text);
/* Answers with a line of plain text, which is copied. */
enum MHD_Result gw_answer_line(struct MHD_Connection *connection, unsigned status, const char *line);

#endif
