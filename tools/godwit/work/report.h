/* What the workers report (tools/godwit/work/workers/workers.h), as mail for the brain and as notes in the
 * claim journal. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_REPORT_H
#define GODWIT_TOOLS_GODWIT_WORK_REPORT_H

#include "kernels/device/device.h"
#include "tools/godwit/energy/meter.h"
#include "tools/godwit/thread/mail.h"
#include "tools/godwit/work/claim_journal.h"
#include "tools/godwit/work/workers/workers.h"

typedef struct gw_reports {
    gw_mailbox *mail;                /* borrowed, as is the device */
    gw_device *device;               /* its bad elements are reported with a seal */
    gw_energy_meter *energy;         /* what a shard costs is reported with a seal; NULL = it is not known */
    gw_claim_journal *const *claims; /* *claims is set before the first deal; NULL = there is no journal */
} gw_reports;

/* The events of a pool of workers. `reports` must live as long as the pool. */
gw_workers_events gw_reports_events(gw_reports *reports);

#endif
