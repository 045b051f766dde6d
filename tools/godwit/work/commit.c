/* The job's effects of committed steps. */
#include "tools/godwit/work/engine.h"

bool gw_task_commit(const gw_task *task, gw_mail *mail, gw_err *err) {
    (void)mail;
    gw_device *device = task->engine->device;
    return device->ops->commit(device, task->step, err);
}
