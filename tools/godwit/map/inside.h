/* The state of a map, for the files of this room that run it. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_INSIDE_H
#define GODWIT_TOOLS_GODWIT_MAP_INSIDE_H

#include "core/map/table.h"
#include "tools/godwit/map/job_log.h"
#include "tools/godwit/map/map.h"
#include "tools/godwit/map/median.h"
#include "tools/godwit/map/order.h"
#include "tools/godwit/map/printer.h"
#include "tools/godwit/map/progress.h"
#include "tools/godwit/map/runs.h"
#include "tools/godwit/map/template.h"

/* A task that has been begun, or waits for another attempt. */
typedef struct map_task {
    struct map_task *next;
    gw_map_values *values;
    uint64_t number;   /* from 0 on */
    uint32_t attempts; /* begun */
    uint32_t slot;     /* from 1 on */
} map_task;

/* How far the map is from its end. */
typedef enum map_course {
    MAP_GOES_ON,
    MAP_ENDS_SOON, /* no task is started any more */
    MAP_ENDS_NOW,  /* those that run are ended, too */
} map_course;

typedef struct map {
    const gw_map_options *options;
    gw_loop *loop;
    gw_map_inputs *inputs;
    gw_map_template *command, *tag;
    gw_map_template *fetches[GW_MAP_FETCHES]; /* names of files that are brought back */
    gw_map_store *store;
    gw_map_runs *runs;
    gw_map_printer *output, *errors;
    gw_map_order order;
    gw_map_log log;
    gw_map_table *table; /* of the rows, where the result is asked for; NULL: none */

    /* what is started next */
    bool inputs_ended;
    gw_map_log_tasks logged; /* of an earlier map */
    uint64_t next_number;
    map_task *again, **again_last; /* tasks that are tried again, in a row */
    uint64_t *free_slots;          /* a bit each */
    uint32_t slots;
    gw_watch input_watch;
    gw_timer pause;    /* nothing is started before it runs out */
    uint64_t begun_ns; /* when the last task was begun */
    uint32_t refusals; /* of the system, in a row, to start a process */
    gw_map_command words, line, tag_line;
    char program_name[256],
        program[4096]; /* the last command that was looked up, and where it is ("": nowhere) */

    /* what has become of tasks */
    uint64_t started, succeeded, failed;
    gw_map_median times;
    gw_map_progress progress;
    gw_timer progress_timer;

    /* the end */
    map_course course;
    int halt_code;              /* exit code of a halt; -1: there was none */
    int signal;                 /* that ends the map; 0: none */
    bool over;                  /* what is ended now is not run again: it is told what became of it */
    bool is_elsewhere, hurries; /* its tasks run on a flock; and nobody waits for them any more */
    gw_watch signal_watch;
    int signal_fd;
    bool fed;        /* the feed is open */
    bool in_trouble; /* the map itself cannot go on */
    gw_err trouble;
} map;

/* start.c. Starts as many tasks as may be started now. */
void map_start_tasks(map *m);
/* The next task, which map_drop_task frees. */
gw_map_next map_next_task(map *m, map_task **task, gw_err *err);
/* Whether there may be tasks to start, now or later. */
bool map_has_more(const map *m);
/* Frees a task and its slot. */
void map_drop_task(map *m, map_task *task);
/* Renders the line for the shell of a task into m->line. False: the map is in trouble. */
bool map_render_line(map *m, const map_task *task);
/* Takes a task whose attempt has ended into the row of those that are tried again. */
void map_try_again(map *m, map_task *task);

/* Sets the times after which runs are ended, when the median of the first ones is known. */
void map_set_timeouts(map *m);

/* finish.c. The calls of gw_map_runs_options. */
void map_on_ended(void *context, gw_map_run *run);
void map_on_wrote(void *context, gw_map_run *run);
void map_on_failed(void *context, const gw_err *err);
/* Notes what became of a task that could not be run at all. */
void map_finish(map *m, map_task *task, gw_map_run *run);
/* Notes that a task is passed over. */
void map_pass_over(map *m, uint64_t number);
/* Takes over how far the whole map is, by what its feed says. */
void map_follow_feed(map *m);
/* Prints as much as can be. */
void map_flush(map *m);
/* Writes the last line of JSON. */
void map_print_summary(map *m);
gw_map_counts map_counts(const map *m);

/* elsewhere.c. Runs a map whose tasks run elsewhere. */
void map_run_elsewhere(map *m);

/* map.c. */
/* Whether something is still to be printed, and somebody waits for it. */
bool map_is_printing(const map *m);
void map_trouble(map *m, const gw_err *err);
void map_end(map *m, map_course course);
/* Tells people something, in a whole sentence; `format` is that of printf. */
void map_tell(map *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Tells the command of a task, where that is asked for. */
void map_tell_command(map *m, const map_task *task);
void map_tell_too_long(map *m, uint64_t task); /* from 0 on */

#endif
