/* Log lines go to one sink that the program sets before it starts a thread; the default sink drops them.
 * Thread: gw_log may be called from any thread once the sink is set; a sink must be thread-safe.
 * The brain (core/brain/peer.h) does not call this: its lines are actions, so that a simulator can tell peers
 * apart. */
#ifndef GODWIT_CORE_BASE_LOG_H
#define GODWIT_CORE_BASE_LOG_H

typedef enum gw_level { GW_DEBUG, GW_INFO, GW_WARN, GW_ERROR } gw_level;

/* A sink receives one line. `room` is a constant such as "net/rdma". `text` is UTF-8 without control
 * characters (core/base/utf8.h), whatever gw_log was given, and is valid during the call only. It does not begin
 * with the room's name: gw_log removes that from the text of an error of the same room. */
typedef void gw_log_sink(void *context, gw_level level, const char *room, const char *text);

void gw_log_set_sink(gw_log_sink *sink, void *context);
void gw_log(gw_level level, const char *room, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The level in words: "debug", "info", "warn", "error"; a constant. */
const char *gw_level_name(gw_level level);

#endif
