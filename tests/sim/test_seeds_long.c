/* Whole flocks under hundreds of seeds more than test_seeds.c has. */
#include "tests/sim/many_seeds.h"

#include <criterion/criterion.h>

Test(seeds_long, quorum_any) {
    gw_sim_result all;
    many_seeds(101, 200, false, false, &all);
    many_seeds_went_wrong(&all);
    many_seeds_end_soon(&all);
    many_seeds_few_end_early(&all, 10, 2);
}

Test(seeds_long, quorum_majority) {
    gw_sim_result all;
    many_seeds(1101, 1200, true, false, &all);
    many_seeds_went_wrong(&all);
    many_seeds_few_end_early(&all, 10, 2);
}

Test(seeds_long, reduce_fast) {
    gw_sim_result all;
    many_seeds(2101, 2200, true, true, &all);
    many_seeds_went_wrong(&all);
    many_seeds_few_end_early(&all, 10, 2);
}
