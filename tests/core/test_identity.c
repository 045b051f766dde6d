/* What two identities that differ are said to differ in. */
#include "core/identity.h"

#include <criterion/criterion.h>
#include <string.h>

#define BRANCH(step)                                                                                         \
    "lr=0.1\nsteps=6\nparent=0123456789abcdef\nparent-step=" step "\nparent-root=ab" step "\n"

static char notes[GW_IDENTITY_NOTES][GW_IDENTITY_NOTE];

Test(identity, where_jobs_go_on_from_is_one_note) {
    cr_assert_eq(gw_identity_notes(BRANCH("20"), "lr=0.1\nsteps=5\n", notes), 1);
    cr_expect_str_eq(notes[0],
                     "it goes on from step 20 of job 01234567 by --continue, which is not given here");
    cr_assert_eq(gw_identity_notes("lr=0.1\nsteps=5\n", BRANCH("20"), notes), 1);
    cr_expect_str_eq(notes[0], "it goes on from no other job, and here --continue is given");
    cr_assert_eq(gw_identity_notes(BRANCH("20"), BRANCH("30"), notes), 1);
    cr_expect_str_eq(notes[0],
                     "it goes on from step 20 of job 01234567, and this one from step 30 of job 01234567: "
                     "--continue=@01234567:20 would take that one here");
    cr_expect(gw_identity_follows(BRANCH("20"), BRANCH("30"), "parent-step=20"));
    cr_expect(gw_identity_follows(BRANCH("20"), "lr=0.1\nsteps=5\n", "steps=6"));
    cr_expect_not(gw_identity_follows(BRANCH("20"), "lr=0.2\n", "lr=0.1"));
    cr_expect_eq(gw_identity_notes(BRANCH("20"), BRANCH("20"), notes), 0);
    char origin[GW_IDENTITY_ORIGIN];
    cr_expect(gw_identity_origin(BRANCH("20"), origin) && strcmp(origin, "step 20 of job 01234567") == 0);
    cr_expect_not(gw_identity_origin("lr=0.1\nparent=unknown\n", origin));
}

Test(identity, evaluations_of_one_job_alone_are_one_note) {
    static const char with[] = "val-tokens=9\neval-every=4\nsteps=6\ndata=01\n",
                      without[] = "steps=5\ndata=02\n";
    cr_assert_eq(gw_identity_notes(with, without, notes), 1);
    cr_expect_str_eq(notes[0], "it has --val, here it is not given");
    cr_assert_eq(gw_identity_notes(without, with, notes), 1);
    cr_expect_str_eq(notes[0], "it has no --val, here it is given");
    cr_expect(
        gw_identity_follows(with, without, "steps=6") && gw_identity_follows(with, without, "eval-every=4") &&
        gw_identity_follows(with, without, "data=01") && gw_identity_follows(with, without, "val-tokens=9"));
    cr_expect_not(gw_identity_follows(with, "val-tokens=9\ndata=02\n", "data=01"));
}

Test(identity, of_jobs_of_two_types_nothing_else_is_named) {
    static const char gpt[] = "job=gpt\nlayers=2\nval-tokens=9\nsteps=6\ndata=01\n",
                      digits[] = "job=digits\nsteps=5\ndata=02\n";
    cr_expect_eq(gw_identity_notes(gpt, digits, notes), 0);
    cr_expect_not(gw_identity_follows(gpt, digits, "job=gpt"));
    cr_expect(gw_identity_follows(gpt, digits, "layers=2") && gw_identity_follows(gpt, digits, "steps=6") &&
              gw_identity_follows(gpt, digits, "val-tokens=9"));
    cr_expect_not(gw_identity_follows("job=gpt\nlayers=2\n", "job=gpt\nlayers=3\n", "layers=2"));
}

Test(identity, a_job_without_an_end_has_no_number_of_steps) {
    cr_expect(gw_identity_is_endless("steps=18446744073709551615\ndata=01\n"));
    cr_expect_not(gw_identity_is_endless("steps=1844674407370955161\n"));
}
