/* Samples of a gpt job while it trains (--sample-every): a copy of the weights continues a prompt, on a thread of the
 * lowest priority, beside the training. The copy is made while the state does not change, and delays the next change
 * by the time of one memcpy of the weights at the most. Nothing is computed that goes into the state.
 *
 * Threads: the main thread opens and closes; the loop's thread does the rest. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_SAMPLE_H
#define GODWIT_TOOLS_GODWIT_NODE_SAMPLE_H

#include "tools/godwit/options/options.h"
#include "tools/godwit/show/events.h"
#include "tools/godwit/work/engine.h"

typedef struct gw_sampler gw_sampler;

/* Opens the sampler of a run whose job is gpt; *sampler becomes NULL where the options ask for no samples. The engine's
 * device is open, and the other arguments outlive the sampler. Reads the tokenizer. */
bool gw_sampler_open(const gw_run_options *options, gw_engine *engine, gw_events *events,
                     gw_sampler **sampler, gw_err *err);
/* The bytes of memory that samples take; 0 without a sampler. */
uint64_t gw_sampler_bytes(const gw_sampler *sampler);
/* Begins a sample if one is due after `steps_done` steps and none is under way. NULL is allowed. */
void gw_sampler_step(gw_sampler *sampler, uint64_t steps_done);
/* Waits for the sample that is under way, for some seconds, and closes the sampler. Returns false where a thread
 * does not return, so that the process must end as it is. NULL is allowed. */
bool gw_sampler_close(gw_sampler *sampler);

#endif
