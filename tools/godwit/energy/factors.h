/* What a kilowatt hour costs: the argument of --energy-factor. */
#ifndef GODWIT_TOOLS_GODWIT_ENERGY_FACTORS_H
#define GODWIT_TOOLS_GODWIT_ENERGY_FACTORS_H

#include "core/base/err.h"

#include <stdbool.h>

#define GW_ENERGY_JOULES_PER_KWH 3.6e6

enum { GW_CURRENCY_TEXT = 9 };

typedef struct gw_energy_factors {
    bool has_co2, has_money;
    double co2;                      /* kilograms of CO2 equivalent a kilowatt hour */
    double money;                    /* the price of a kilowatt hour */
    char currency[GW_CURRENCY_TEXT]; /* of that price; "" = not given */
} gw_energy_factors;

/* Parses "co2=0.35,money=0.30,currency=EUR": a list of parts, each given once, in any order. Numbers are
 * finite and at least 0; a currency has 1 to 8 letters or signs of ASCII, and a price beside it. Fails
 * with GW_E_USAGE and a text that names the part. */
bool gw_energy_factors_parse(const char *text, gw_energy_factors *factors, gw_err *err);

#endif
