/* What the end of a child means for its job. */
#include "tools/godwit/flock/children.h"

#include <criterion/criterion.h>
#include <signal.h>

typedef struct judged {
    const char *what;
    gw_job_kind kind;
    gw_keeper_end end;
    const char *outcome;
    gw_child_verdict verdict;
} judged;

static void expect(const judged *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        cr_expect_eq(gw_child_judge(list[i].kind, &list[i].end, list[i].outcome, false), list[i].verdict,
                     "%s", list[i].what);
}

Test(judge, commands_end_by_their_exit_codes) {
    const judged list[] = {
        {"good", GW_JOB_COMMAND, {.started = true}, NULL, GW_CHILD_DONE},
        {"good, although it was asked to end",
         GW_JOB_COMMAND,
         {.started = true, .asked = true},
         NULL,
         GW_CHILD_DONE},
        {"bad", GW_JOB_COMMAND, {.started = true, .code = 1}, NULL, GW_CHILD_FAILED},
        {"bad, as it was asked to end",
         GW_JOB_COMMAND,
         {.started = true, .code = 1, .asked = true},
         NULL,
         GW_CHILD_LEFT},
        {"2 is a code like others", GW_JOB_COMMAND, {.started = true, .code = 2}, NULL, GW_CHILD_FAILED},
        {"not there", GW_JOB_COMMAND, {.code = 127}, NULL, GW_CHILD_FAILED},
        {"may not be executed", GW_JOB_COMMAND, {.code = 126}, NULL, GW_CHILD_FAILED},
        {"no working directory", GW_JOB_COMMAND, {.code = 125}, NULL, GW_CHILD_STRUCK},
    };
    expect(list, sizeof list / sizeof *list);
}

Test(judge, a_signal_is_the_programs_fault_or_comes_from_outside) {
    for (gw_job_kind kind = GW_JOB_RUN; kind <= GW_JOB_COMMAND; kind++) {
        const judged list[] = {
            {"fault", kind, {.started = true, .signal = SIGSEGV}, NULL, GW_CHILD_FAILED},
            {"assertion", kind, {.started = true, .signal = SIGABRT}, NULL, GW_CHILD_FAILED},
            {"no memory", kind, {.started = true, .signal = SIGKILL}, NULL, GW_CHILD_STRUCK},
            {"somebody", kind, {.started = true, .signal = SIGTERM}, NULL, GW_CHILD_STRUCK},
            {"the member", kind, {.started = true, .signal = SIGKILL, .asked = true}, NULL, GW_CHILD_LEFT},
            {"fault while it leaves",
             kind,
             {.started = true, .signal = SIGSEGV, .asked = true},
             NULL,
             GW_CHILD_LEFT},
        };
        expect(list, sizeof list / sizeof *list);
    }
}

Test(judge, jobs_of_steps_end_by_what_they_have_told) {
    const judged list[] = {
        {"done", GW_JOB_RUN, {.started = true}, "done", GW_CHILD_DONE},
        {"stopped", GW_JOB_RUN, {.started = true}, "stopped", GW_CHILD_STOPPED},
        {"failed", GW_JOB_RUN, {.started = true, .code = 1}, "failed", GW_CHILD_FAILED},
        {"left", GW_JOB_RUN, {.started = true}, "left", GW_CHILD_LEFT},
        {"unsaved", GW_JOB_RUN, {.started = true, .code = 1}, "unsaved", GW_CHILD_LEFT},
        {"denied", GW_JOB_RUN, {.started = true, .code = 1}, "denied", GW_CHILD_STRUCK},
        {"a word of a later build", GW_JOB_RUN, {.started = true, .code = 1}, "evaporated", GW_CHILD_STRUCK},
        {"options that no node takes", GW_JOB_RUN, {.started = true, .code = 2}, NULL, GW_CHILD_FATAL},
        {"it has told nothing", GW_JOB_RUN, {.started = true, .code = 1}, NULL, GW_CHILD_STRUCK},
        {"it was not started", GW_JOB_RUN, {.code = 127}, NULL, GW_CHILD_STRUCK},
    };
    expect(list, sizeof list / sizeof *list);
}

Test(judge, maps_end_when_their_tasks_have) {
    const judged list[] = {
        {"all tasks are done", GW_JOB_MAP, {.started = true}, NULL, GW_CHILD_DONE},
        {"tasks failed", GW_JOB_MAP, {.started = true, .code = 101}, NULL, GW_CHILD_FATAL},
        {"asked to end", GW_JOB_MAP, {.started = true, .code = 143, .asked = true}, NULL, GW_CHILD_LEFT},
        {"a signal from outside", GW_JOB_MAP, {.started = true, .code = 143}, NULL, GW_CHILD_STRUCK},
        {"a full disk", GW_JOB_MAP, {.started = true, .code = 255}, NULL, GW_CHILD_STRUCK},
    };
    expect(list, sizeof list / sizeof *list);
}

Test(judge, options_may_name_what_is_in_a_directory_that_is_elsewhere) {
    const gw_keeper_end end = {.started = true, .code = 2};
    cr_expect_eq(gw_child_judge(GW_JOB_RUN, &end, NULL, true), GW_CHILD_STRUCK);
    cr_expect_eq(gw_child_judge(GW_JOB_COMMAND, &end, NULL, true), GW_CHILD_FAILED);
}
