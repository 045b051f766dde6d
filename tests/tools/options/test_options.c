/* The options of `godwit run`: what is parsed, and what is refused. */
#include "net/fabric/fabric.h"
#include "tools/godwit/options/options.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t copies; /* texts that can be copied before memory runs out */
static bool limited;

char *__wrap_strdup(const char *text);
char *__real_strdup(const char *text);

char *__wrap_strdup(const char *text) {
    if (limited && copies == 0) return NULL;
    copies--;
    return __real_strdup(text);
}

static bool parse(gw_run_options *options, const char *option, const char *value, gw_err *err) {
    char *argv[] = {(char[]){"godwit run"}, (char[]){"synthetic"}, (char *)(uintptr_t)option,
                    (char *)(uintptr_t)value, NULL};
    return gw_run_options_parse(value != NULL ? 4 : 3, argv, options, err);
}

/* A seed without its text would be dereferenced later. */
Test(options, a_seed_for_which_there_is_no_memory_is_refused) {
    gw_run_options options;
    gw_err err;
    limited = true;
    copies = 2; /* the list and its first seed */
    cr_assert_not(parse(&options, "--join", "10.0.0.1:7117,10.0.0.2:7117", &err));
    cr_expect_eq(err.code, GW_E_NOMEM);
    cr_expect_not_null(strstr(err.text, "--join"), "%s", err.text);
    copies = 3;
    cr_assert(parse(&options, "--join", "10.0.0.1:7117,10.0.0.2:7117", &err), "%s", err.text);
    cr_expect_eq(options.seed_count, 2);
    gw_run_options_free(&options);
}

Test(options, a_file_of_addresses_is_a_seed_where_its_path_has_a_slash) {
    gw_run_options options;
    gw_err err;
    cr_assert(parse(&options, "--join", "file:/tmp/a b,file:./c,file:7117", &err), "%s", err.text);
    cr_assert_eq(options.seed_count, 3);
    cr_expect(gw_seed_is_file(options.seeds[0]) && gw_seed_is_followed(options.seeds[1]));
    cr_expect_not(gw_seed_is_followed(options.seeds[2])); /* a host of this name */
    gw_run_options_free(&options);
}

Test(options, a_service_is_a_seed_with_a_port_of_its_own_or_the_usual_one) {
    gw_run_options options;
    gw_err err;
    cr_assert(parse(&options, "--join",
                    "dns:godwit.default.svc,dns:peers.example.org.:7000,dns:7117,10.0.0.1:7", &err),
              "%s", err.text);
    static const char *const seeds[] = {"dns:godwit.default.svc:7117", "dns:peers.example.org.:7000",
                                        "dns:7117", "10.0.0.1:7"};
    cr_assert_eq(options.seed_count, 4);
    for (int i = 0; i < 4; i++) {
        cr_expect_str_eq(options.seeds[i], seeds[i]);
        cr_expect_eq(gw_seed_is_followed(seeds[i]), i < 2, "%s", seeds[i]);
    }
    gw_run_options_free(&options);
    static const char *const refused[] = {
        "dns:",        "dns::7117", "dns:10.0.0.1",    "dns:10.0.0.1:7117", "dns:[::1]:7117",
        "dns:::1",     "dns:a b",   "dns:a:b",         "dns:a:0",           "dns:a:",
        "dns:a:70000", "dns:a/b",   "dns:\u00e4.test", "dns:a:1:2",         "dns:-x\n:7117"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        cr_expect_not(parse(&options, "--join", refused[i], &err), "%s", refused[i]);
        cr_expect_not_null(strstr(err.text, "--join"), "%s", err.text);
    }
}

/* The job's id is the hash of these lines, which are the same in other versions. */
Test(options, the_identity_has_the_lines_that_it_always_had) {
    gw_run_options options;
    gw_err err;
    for (int fast = 0; fast < 2; fast++) {
        char *text = NULL;
        size_t length;
        FILE *out = open_memstream(&text, &length);
        cr_assert(parse(&options, "--steps", "7", &err), "%s", err.text);
        options.fast = fast;
        gw_run_options_write_identity(&options, out);
        fclose(out);
        cr_expect_str_eq(text, fast ? "steps=7\nreduce=fast\n" : "steps=7\nreduce=exact\n");
        free(text);
        gw_run_options_free(&options);
    }
}

Test(options, what_is_given_stands_in_the_place_of_a_default) {
    static const struct {
        const char *option, *value;
        size_t field;
        uint64_t expected;
    } times[] = {{"--join-timeout", "250ms", offsetof(gw_run_options, join_timeout_ns), 250000000},
                 {"--resume-timeout", "2m", offsetof(gw_run_options, resume_timeout_ns), 120000000000},
                 {"--save-timeout", "0s", offsetof(gw_run_options, save_timeout_ns), 0},
                 {"--hang-timeout", "1s", offsetof(gw_run_options, hang_timeout_ns), 1000000000},
                 {"--probe-interval-ms", "10", offsetof(gw_run_options, probe_interval_ns), 10000000},
                 {"--steps", "5", offsetof(gw_run_options, steps), 5}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        gw_run_options options;
        gw_err err;
        uint64_t value;
        cr_assert(parse(&options, times[i].option, times[i].value, &err), "%s", err.text);
        memcpy(&value, (char *)&options + times[i].field, sizeof value);
        cr_expect_eq(value, times[i].expected, "%s", times[i].option);
        gw_run_options_free(&options);
    }
}

static void refuse(const char *option, const char *value, const char *text) {
    gw_run_options options;
    gw_err err;
    cr_assert_not(parse(&options, option, value, &err), "%s", option);
    cr_expect_eq(err.code, GW_E_USAGE);
    cr_expect_str_eq(err.text, text);
}

Test(options, what_makes_no_sense_is_refused_by_its_name) {
    refuse("--hang-timeout", "999ms", "--hang-timeout: '999ms' is less than 1s");
    refuse("--reduce", "exac", "--reduce: 'exac' is neither 'exact' nor 'fast'");
    refuse("--quorum", "all", "--quorum: 'all' is neither 'any' nor 'majority'");
    refuse("--transport", "fast", "--transport: 'fast' is none of auto, tcp, shm and rdma");
    refuse("--dir", "", "--dir: the name is empty");
    refuse("--cluster", "", "--cluster: the name is empty");
    refuse("--name", "", "--name: '' has 0 bytes; a name has 1 to 63");
    refuse("--name", "0123456789012345678901234567890123456789012345678901234567890123",
           "--name: '0123456789012345678901234567890123456789012345678901234567890123' has 64 bytes; a name "
           "has 1 to "
           "63");
    refuse("--name", "a\033[2J", "--name: 'a?[2J' has bytes that are control characters, or not UTF-8");
    refuse("--name", "a\xff", "--name: 'a?' has bytes that are control characters, or not UTF-8");
    refuse("--verify", "2", "--verify: '2' is neither 'off' nor a share such as 1% or 0.5%");
#define NO_DEAL                                                                                              \
    " is neither 'speed' nor 'energy', nor such as 'energy:5%', which lets steps take 5% longer (100% at "   \
    "most)"
    refuse("--deal", "luck", "--deal: 'luck'" NO_DEAL);
    refuse("--deal", "energy:101%", "--deal: 'energy:101%'" NO_DEAL);
    refuse("--deal", "energy:5", "--deal: 'energy:5'" NO_DEAL);
    refuse("--deal", "energy:1.5.2%", "--deal: 'energy:1.5.2%'" NO_DEAL);
#define NO_WATTS " is no number of watts, above 0 and at most 10000"
    refuse("--cpu-watts", "0", "--cpu-watts: '0'" NO_WATTS);
    refuse("--cpu-watts", "nan", "--cpu-watts: 'nan'" NO_WATTS);
    refuse("--cpu-watts", "10001", "--cpu-watts: '10001'" NO_WATTS);
    refuse("--energy-factor", "co2=1,co2=2", "--energy-factor: 'co2' is given twice");
    refuse("--resume-timeout", "soon", "--resume-timeout: 'soon' is not a time such as 500ms, 30s, 5m or 2h");
}

static bool parse_words(gw_run_options *options, const char *const *words, gw_err *err) {
    char *argv[16] = {(char[]){"godwit run"}};
    int argc = 1;
    for (; words[argc - 1] != NULL; argc++) argv[argc] = (char *)(uintptr_t)words[argc - 1];
    return gw_run_options_parse(argc, argv, options, err);
}

/* The last value counts, as in a script that appends one; but nothing of the command line is lost silently,
 * and no training leaves out files that a person has named. */
Test(options, that_are_given_again_are_told_and_lists_of_files_are_refused) {
    gw_run_options options;
    gw_err err;
    const char *const twice[] = {"gpt",    "--updates", "4000",   "--steps=5", "--updates=5000",
                                 "--data", "a.txt",     "--data", "a.txt",     "--steps",
                                 "7",      NULL};
    cr_assert(parse_words(&options, twice, &err), "%s", err.text);
    cr_expect_str_eq(options.repeated, "--steps 7 (not 5), --updates 5000 (not 4000)");
    cr_expect_eq(options.steps, 7);
    gw_run_options_free(&options);
    const char *const once[] = {"gpt",     "--join", "10.0.0.1:7117", "--join", "10.0.0.2:7117",
                                "--seed",  "3",      "--seed",        "3",      "--quiet",
                                "--quiet", NULL};
    cr_assert(parse_words(&options, once, &err), "%s", err.text);
    cr_expect_null(options.repeated, "%s", options.repeated);
    cr_expect_eq(options.seed_count, 2);
    gw_run_options_free(&options);
    const char *const lists[] = {"gpt",    "--steps",     "5",      "--steps", "6",
                                 "--data", "a.txt,b.txt", "--data", "c.txt",   NULL};
    cr_assert_not(parse_words(&options, lists, &err));
    cr_expect_eq(err.code, GW_E_USAGE);
    cr_expect_str_eq(err.text, "--data is given twice, and several files are one argument: --data "
                               "a.txt,b.txt,c.txt");
}

Test(options, the_name_is_the_hosts_without_its_domain) {
    gw_run_options o;
    gw_err err;
    char host[256] = "";
    cr_assert_eq(gethostname(host, sizeof host - 1), 0);
    host[strcspn(host, ".")] = '\0';
    cr_assert(parse(&o, "--fresh", NULL, &err), "%s", err.text);
    cr_expect_str_eq(o.name, host);
    gw_run_options_free(&o);
    cr_assert(parse(&o, "--name", "node 7, größte", &err), "%s", err.text);
    cr_expect_str_eq(o.name, "node 7, größte");
    gw_run_options_free(&o);
}

Test(options, every_field_has_its_default) {
    gw_run_options o;
    gw_err err;
    cr_assert(parse(&o, "--fresh", NULL, &err), "%s", err.text);
    cr_expect(o.fresh && !o.forget_losses && !o.json && !o.quiet && !o.verbose && !o.no_prefetch);
    cr_expect_str_eq(o.cluster, GW_DEFAULT_CLUSTER);
    cr_expect(o.advertise == NULL && o.key_file == NULL && o.cpu_class == NULL && o.metrics == NULL);
    cr_expect(o.rdma.device == NULL && !o.rdma.gid_chosen);
    cr_expect_eq(o.transports, GW_FABRIC_TCP | GW_FABRIC_SHM | GW_FABRIC_RDMA);
    cr_expect(o.compute.precision == 0 && o.compute.gpu_count == 0);
    cr_expect(o.keep == 2 && o.replicas == 0 && o.time_scale_percent == 100 && o.verify == 0);
    cr_expect_eq(o.join_timeout_ns, 30000000000u);
    cr_expect(o.resume_timeout_ns == 60000000000u && o.save_timeout_ns == 60000000000u &&
              o.hang_timeout_ns == 60000000000u && o.probe_interval_ns == 0 && o.steps == 0);
    gw_run_options_free(&o);
}

Test(options, work_is_dealt_by_speed_or_by_energy) {
    static const struct {
        const char *value;
        bool energy;
        uint32_t slack;
    } cases[] = {
        {"speed", false, 0}, {"energy", true, 0}, {"energy:2.5%", true, 25}, {"energy:100%", true, 1000}};
    gw_run_options options;
    gw_err err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert(parse(&options, "--deal", cases[i].value, &err), "%s", err.text);
        cr_expect(options.deal_energy == cases[i].energy && options.deal_slack == cases[i].slack, "%zu", i);
        gw_run_options_free(&options);
    }
    cr_assert(parse(&options, "--fresh", NULL, &err), "%s", err.text);
    cr_expect(!options.deal_energy && options.deal_slack == 0 && options.cpu_watts == 0);
    cr_expect(!options.energy_factors.has_co2 && !options.energy_factors.has_money);
    gw_run_options_free(&options);
}

Test(options, where_a_job_goes_on_may_be_left_out) {
    static const struct {
        const char *option, *value, *from;
    } cases[] = {{"--continue", NULL, NULL},
                 {"--continue", "old@30", "old@30"},
                 {"--continue=@30", NULL, "@30"},
                 {"--continue", "--quiet", NULL},
                 {"--continue", "@1f3a:30", "@1f3a:30"}};
    gw_run_options options;
    gw_err err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert(parse(&options, cases[i].option, cases[i].value, &err), "%zu: %s", i, err.text);
        cr_expect(options.continues);
        cr_expect((options.continue_from == NULL) == (cases[i].from == NULL), "%zu", i);
        if (cases[i].from != NULL) cr_expect_str_eq(options.continue_from, cases[i].from);
        gw_run_options_free(&options);
    }
    cr_assert_not(parse(&options, "--continue", "--fresh", &err));
    cr_expect_not_null(strstr(err.text, "--fresh begins at step 0 and --continue goes on"), "%s", err.text);
    cr_assert_not(parse(&options, "--continue=", NULL, &err));
    cr_expect_not_null(strstr(err.text, "the name of the directory is empty"), "%s", err.text);
}

/* A script stands for the job `program`, and what follows "--" are its arguments. */
Test(options, a_script_is_a_program_with_arguments_of_its_own) {
    gw_run_options options;
    gw_err err;
    char *argv[] = {(char[]){"godwit run"},
                    (char[]){"train.py"},
                    (char[]){"--args"},
                    (char[]){"first"},
                    (char[]){"--workers"},
                    (char[]){"2"},
                    (char[]){"--"},
                    (char[]){"--lr"},
                    (char[]){"a b"},
                    (char[]){""},
                    NULL};
    cr_assert(gw_run_options_parse(10, argv, &options, &err), "%s", err.text);
    cr_expect_str_eq(options.job->name, "program");
    cr_expect_str_eq(gw_param_text(&options.params, "program"), "train.py");
    cr_expect_str_eq(gw_param_text(&options.params, "args"), "first --lr a\\ b ''");
    cr_expect_eq(options.workers, 2);
    gw_run_options_free(&options);
    char *alone[] = {(char[]){"godwit run"}, (char[]){"train.py"}, NULL};
    cr_assert(gw_run_options_parse(2, alone, &options, &err), "%s", err.text);
    cr_expect_null(gw_param_text(&options.params, "args"));
    gw_run_options_free(&options);
}
