#include "tools/godwit/energy/rate.h"

#define KEPT  0.9  /* an interval counts so much of the next one */
#define RIDGE 0.01 /* relative weight against a power at rest */

void gw_energy_rate_add(gw_energy_rate *r, double seconds, double shards, double joules) {
    r->tt = r->tt * KEPT + seconds * seconds;
    r->tn = r->tn * KEPT + seconds * shards;
    r->nn = r->nn * KEPT + shards * shards;
    r->tj = r->tj * KEPT + seconds * joules;
    r->nj = r->nj * KEPT + shards * joules;
}

double gw_energy_rate_shard(const gw_energy_rate *r) {
    if (!(r->nn > 0)) return 0;
    double mean = r->nj / r->nn, tt = r->tt * (1 + RIDGE), determinant = tt * r->nn - r->tn * r->tn;
    if (!(determinant > 0)) return mean;
    double rest = (r->tj * r->nn - r->tn * r->nj) / determinant;
    double shard = (tt * r->nj - r->tn * r->tj) / determinant;
    return rest > 0 && shard > 0 ? shard : mean;
}
