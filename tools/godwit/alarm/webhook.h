/* POSTs a text by libcurl, which is opened when it is needed. */
#ifndef GODWIT_TOOLS_GODWIT_ALARM_WEBHOOK_H
#define GODWIT_TOOLS_GODWIT_ALARM_WEBHOOK_H

#include "core/base/err.h"

/* Whether the URL is one of http or https with a host, and libcurl can be opened. Fails with GW_E_USAGE and
 * GW_E_UNSUPPORTED. Any thread. */
bool gw_webhook_check(const char *url, gw_err *err);
/* Sends `json`, and waits for the answer, at most `timeout_ms`. Redirections are not followed. Fails with GW_E_IO
 * where the answer's status is not 2xx or none comes; the text does not have the URL's path, which may be a secret.
 * One thread at a time. */
bool gw_webhook_post(const char *url, const char *json, long timeout_ms, gw_err *err);

#endif
