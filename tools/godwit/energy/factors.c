#include "tools/godwit/energy/factors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXAMPLE "give parts such as co2=0.35,money=0.30,currency=EUR"

enum { LONGEST = 200 };

static bool parse_number(const char *key, const char *text, bool *given, double *number, gw_err *err) {
    char *end;
    if (*given) return gw_fail(err, GW_E_USAGE, "'%s' is given twice", key);
    *given = true;
    *number = strtod(text, &end);
    /* The function strtod also takes hexadecimal numbers, infinities and spaces in front. */
    bool plain = text[0] != '\0' && strspn(text, "0123456789.eE+-") == strlen(text);
    if (plain && *end == '\0' && isfinite(*number) && *number >= 0 && *number <= 1e9) return true;
    return gw_fail(err, GW_E_USAGE, "%s=%s: that is no number from 0 to 1e9, a kilowatt hour", key, text);
}

static bool parse_currency(const char *text, gw_energy_factors *factors, gw_err *err) {
    size_t length = strlen(text);
    if (factors->currency[0] != '\0') return gw_fail(err, GW_E_USAGE, "'currency' is given twice");
    bool good = length >= 1 && length < sizeof factors->currency;
    for (size_t i = 0; good && i < length; i++)
        good = text[i] > ' ' && text[i] < 0x7f && text[i] != '"' && text[i] != '\\';
    if (!good)
        return gw_fail(err, GW_E_USAGE, "currency=%s: a currency has 1 to %d letters, as EUR", text,
                       GW_CURRENCY_TEXT - 1);
    memcpy(factors->currency, text, length + 1);
    return true;
}

static bool parse_part(char *part, gw_energy_factors *factors, gw_err *err) {
    char *equals = strchr(part, '=');
    if (equals == NULL) return gw_fail(err, GW_E_USAGE, "'%s' is no part: " EXAMPLE, part);
    *equals = '\0';
    const char *value = equals + 1;
    if (strcmp(part, "co2") == 0) return parse_number(part, value, &factors->has_co2, &factors->co2, err);
    if (strcmp(part, "money") == 0)
        return parse_number(part, value, &factors->has_money, &factors->money, err);
    if (strcmp(part, "currency") == 0) return parse_currency(value, factors, err);
    return gw_fail(err, GW_E_USAGE, "'%s' is none of co2, money and currency", part);
}

bool gw_energy_factors_parse(const char *text, gw_energy_factors *factors, gw_err *err) {
    char copy[LONGEST];
    *factors = (gw_energy_factors){.has_co2 = false};
    if (strlen(text) >= sizeof copy) return gw_fail(err, GW_E_USAGE, "the text is too long: " EXAMPLE);
    memcpy(copy, text, strlen(text) + 1);
    for (char *rest = copy; rest != NULL;) { /* an empty part is one, too, and is refused */
        char *part = strsep(&rest, ",");
        if (!parse_part(part, factors, err)) return false;
    }
    if (factors->currency[0] != '\0' && !factors->has_money)
        return gw_fail(err, GW_E_USAGE, "a currency needs a price: money=0.30,currency=%s",
                       factors->currency);
    return true;
}
