/* The pure parts: texts of the kernel, factors, the file, and what one more shard costs. */
#include "tools/godwit/energy/factors.h"
#include "tools/godwit/energy/kernel.h"
#include "tools/godwit/energy/rate.h"
#include "tools/godwit/energy/record.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

Test(energy_kernel, numbers_are_whole_and_fit) {
    uint64_t number;
    cr_assert(gw_kernel_number("18446744073709551615\n", &number) && number == UINT64_MAX);
    cr_assert(gw_kernel_number("0", &number) && number == 0);
    static const char *const bad[] = {"", "\n", "-1", "18446744073709551616", "1 2", "0x10", "1.5", "x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert(!gw_kernel_number(bad[i], &number), "%s", bad[i]);
}

Test(energy_kernel, a_machine_that_idles_or_waits_computes_nothing) {
    uint64_t ticks;
    cr_assert(gw_kernel_busy("cpu  1 10 100 5000 600 1000 10000 70000 3 4\ncpu0 1\n", &ticks));
    cr_assert_eq(ticks, 11111);
    static const char *const bad[] = {"", "cpu", "cpu0 1 2 3 4 5 6 7", "cpu  1 2 3 4 5 6",
                                      "cpu  18446744073709551615 1 0 0 0 0 0"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert(!gw_kernel_busy(bad[i], &ticks), "%s", bad[i]);
}

Test(energy_kernel, the_name_of_a_process_is_no_field_of_its_time) {
    uint64_t ticks;
    cr_assert(gw_kernel_own("12 (a) 1 2 (b c) R 1 2 3 4 5 6 7 8 9 10 1 20 300 4000 20 0\n", &ticks));
    cr_assert_eq(ticks, 4321);
    static const char *const bad[] = {"", "12 (a", "12 (a) R 1 2 3",
                                      "12 (a) R 1 2 3 4 5 6 7 8 9 10 1 2 3 -4"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert(!gw_kernel_own(bad[i], &ticks), "%s", bad[i]);
}

Test(energy_factors, parts_come_in_any_order) {
    gw_energy_factors f;
    gw_err err;
    cr_assert(gw_energy_factors_parse("currency=EUR,money=0.30,co2=3.5e-1", &f, &err), "%s", err.text);
    cr_assert(f.has_co2 && f.has_money && f.co2 == 0.35 && f.money == 0.30);
    cr_assert_str_eq(f.currency, "EUR");
    cr_assert(gw_energy_factors_parse("co2=0", &f, &err) && f.has_co2 && !f.has_money);
}

Test(energy_factors, what_makes_no_sense_is_refused_by_name) {
    static const struct {
        const char *text, *names;
    } bad[] = {{"", "co2=0.35"},
               {"0.35", "0.35"},
               {"co2=", "co2="},
               {"co2=-1", "co2=-1"},
               {"co2=nan", "co2=nan"},
               {"co2=inf", "co2=inf"},
               {"co2=1x", "co2=1x"},
               {"co2=1,co2=2", "twice"},
               {"co2=0x1p3", "0x1p3"},
               {"carbon=1", "carbon"},
               {"co2=1,", "co2=0.35"},
               {"currency=EUR", "price"},
               {"money=1,currency=", "currency="},
               {"money=1,currency=123456789", "1 to 8"},
               {"money=1,currency=a\"b", "1 to 8"},
               {"money=1e300", "1e300"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gw_energy_factors f;
        gw_err err;
        cr_assert(!gw_energy_factors_parse(bad[i].text, &f, &err), "%s", bad[i].text);
        cr_assert_eq(err.code, GW_E_USAGE);
        cr_assert_not_null(strstr(err.text, bad[i].names), "%s: %s", bad[i].text, err.text);
    }
}

Test(energy_record, what_is_written_is_read_again) {
    gw_energy_record a = {.count = 0}, b;
    char text[GW_ENERGY_RECORD_BYTES];
    gw_err err;
    for (uint8_t i = 0; i < GW_ENERGY_JOBS + 2; i++) {
        gw_energy_job *job = gw_energy_record_job(&a, &(gw_hash){{i}});
        for (int s = 1; s < GW_ENERGY_SOURCES; s++) job->joules[s] = i * 1e15 + s;
    }
    gw_energy_record_job(&a, &(gw_hash){{5}})->joules[GW_ENERGY_RAPL] = 0.25;
    cr_assert_eq(a.count, GW_ENERGY_JOBS);
    cr_assert_eq(a.jobs[0].id.bytes[0], 2); /* those before it have made room */
    cr_assert_eq(a.jobs[GW_ENERGY_JOBS - 1].id.bytes[0], 5);
    size_t length = gw_energy_record_write(&a, text);
    cr_assert(gw_energy_record_read(text, length, &b, &err), "%s", err.text);
    cr_assert_eq(b.count, GW_ENERGY_JOBS);
    for (uint32_t i = 0; i < b.count; i++) {
        cr_assert(gw_hash_equal(&a.jobs[i].id, &b.jobs[i].id));
        for (int s = 1; s < GW_ENERGY_SOURCES; s++)
            cr_assert(fabs(a.jobs[i].joules[s] - b.jobs[i].joules[s]) <= 1e-8 * a.jobs[i].joules[s]);
    }
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

Test(energy_record, a_damaged_file_is_refused_by_its_line) {
    static const struct {
        const char *text, *line;
    } bad[] = {{"", "line 1"},
               {"godwit-energy 2\n", "line 1"},
               {"godwit-energy 1", "line 1"},
               {"godwit-energy 1\n" ID " rapl\n", "line 2"},
               {"godwit-energy 1\n" ID " rapl -1\n", "line 2"},
               {"godwit-energy 1\n" ID " rapl inf\n", "line 2"},
               {"godwit-energy 1\n" ID " rapl 1 rapl 2\n", "line 2"},
               {"godwit-energy 1\n" ID " coal 1\n", "line 2"},
               {"godwit-energy 1\n" ID "\n" ID "\n", "line 3"},
               {"godwit-energy 1\n" ID "0\n", "line 2"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gw_energy_record r;
        gw_err err;
        cr_assert(!gw_energy_record_read(bad[i].text, strlen(bad[i].text), &r, &err), "%s", bad[i].text);
        cr_assert_not_null(strstr(err.text, bad[i].line), "%s: %s", bad[i].text, err.text);
        cr_assert_eq(r.count, 0);
    }
}

Test(energy_rate, all_of_it_is_the_shards_while_nothing_tells_them_from_rest) {
    gw_energy_rate r = {0};
    cr_assert_eq(gw_energy_rate_shard(&r), 0);
    for (int i = 0; i < 50; i++) gw_energy_rate_add(&r, 1, 10, 50);
    cr_assert(fabs(gw_energy_rate_shard(&r) - 5) < 1e-6);
}

Test(energy_rate, rest_is_told_from_shards_where_their_number_varies) {
    gw_energy_rate r = {0};
    for (int i = 0; i < 60; i++) {
        double shards = i % 3 * 5;
        gw_energy_rate_add(&r, 1, shards, 30 + 2 * shards);
    }
    double shard = gw_energy_rate_shard(&r);
    cr_assert(shard > 1.9 && shard < 2.4, "%g", shard);
}

Test(energy_rate, an_hour_of_rest_makes_no_shard_dearer) {
    gw_energy_rate r = {0};
    for (int i = 0; i < 50; i++) gw_energy_rate_add(&r, 1, 10, 50);
    double before = gw_energy_rate_shard(&r);
    for (int i = 0; i < 20; i++) gw_energy_rate_add(&r, 1, 0, 20);
    double after = gw_energy_rate_shard(&r);
    cr_assert(after < before && after > 2.5, "%g", after);
}
