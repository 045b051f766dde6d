/* A job's parameters as the job reads them. Two commands mean the same job where the values are the same,
 * however they are spelled: "--lr 0.01", "--lr 1e-2" and no --lr at all. Therefore the functions by which a
 * job reads its parameters (core/godwit.h) record each value in one spelling of its own, and the record, not
 * the command line, goes into the job's identity and its manifests. */
#ifndef GODWIT_CORE_PARAMS_H
#define GODWIT_CORE_PARAMS_H

#include "core/godwit.h"

/* Open and close a record. The caller puts it into a gw_params before the job is opened, keeps it as long as
 * that gw_params is used, and closes it. One thread at a time. */
gw_param_record *gw_param_record_open(void);
void gw_param_record_close(gw_param_record *record);
/* Forgets what is recorded, before the job is opened again. */
void gw_param_record_clear(gw_param_record *record);

/* The value that the job computes with, where the job has recorded one; otherwise the text that was given or
 * is the default. NULL: the option has no value, or means nothing to this job. The text lives until the value
 * is recorded again or the record is closed. */
const char *gw_param_value(const gw_params *params, const char *name);

/* Entry `index`, from 0 on, of the recorded values that are not NULL, in the order in which the names were
 * first recorded, as a parameter whose texts live as long as gw_param_value's. Returns false behind the
 * last one. */
bool gw_param_recorded(const gw_params *params, uint32_t index, gw_param *param);

/* The value of the first parameter of a list that has this name; NULL: none has. */
const char *gw_param_of_list(const gw_param *list, uint32_t count, const char *name);

/* Whether two texts stand for one value: the same text, or two spellings of one number. */
bool gw_param_is_same(const char *one, const char *other);

/* The one spelling of a finite number: the fewest digits that strtod reads back as it, without an exponent
 * from 0.0001 up to below 1e16 ("0.01", "480"), and otherwise with one ("1e-8"). */
enum { GW_PARAM_REAL_TEXT = 32 };
void gw_param_real_text(double value, char text[GW_PARAM_REAL_TEXT]);

#endif
