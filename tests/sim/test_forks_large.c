/* Majority mode never forks, at sizes that take minutes of a core each. They run before a release
 * (./build.sh test all), and whenever the rules of votes change. */
#include "tests/sim/never_forks.h"

#include <criterion/criterion.h>

Test(forks_large, three_peers_of_which_one_restarts_never_fork) {
    never_forks((gw_forks_size){3, 3, 1, 2}, 19383687);
}

Test(forks_large, four_peers_of_which_two_restart_never_fork) {
    never_forks((gw_forks_size){4, 2, 2, 1}, 11064059);
}

Test(forks_large, four_peers_never_fork) {
    never_forks((gw_forks_size){4, 3, 0, 0}, 27847629);
}
