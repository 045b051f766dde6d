#include "tools/godwit/node/trace.h"

#include "core/os/trace.h"

static void add_notice(const gw_action *action) {
    const gw_notice *notice = &action->notice;
    uint64_t peer = gw_trace_peer(action->peer.bytes), now_ns = gw_now_ns();
    switch (notice->kind) {
    case GW_NOTICE_PEER_ALIVE:
        gw_trace_mark(GW_TRACE_ALIVE, 0, peer);
        break;
    case GW_NOTICE_PEER_DEAD:
        gw_trace_mark(GW_TRACE_DEAD, 0, peer);
        break;
    case GW_NOTICE_PEER_LEFT:
        gw_trace_mark(GW_TRACE_LEFT, 0, peer);
        break;
    case GW_NOTICE_VIEW:
        gw_trace_add(GW_TRACE_VIEW, now_ns - notice->view.duration_ns, now_ns, notice->view.installed->count,
                     notice->view.installed->epoch, 0);
        break;
    case GW_NOTICE_REPAIR:
        gw_trace_mark(GW_TRACE_REPAIR, notice->repair.shards, action->step);
        break;
    case GW_NOTICE_CHECKPOINT:
        gw_trace_mark(GW_TRACE_CHECKPOINT, 0, action->step);
        break;
    default:
        break;
    }
}

void gw_node_trace_action(gw_node_trace *trace, const gw_action *action) {
    switch (action->kind) {
    case GW_ACT_BEGIN_STEP:
        gw_trace_mark(GW_TRACE_STEP, action->begin_step.shards, action->step);
        break;
    case GW_ACT_DEAL:
        gw_trace_mark(GW_TRACE_DEAL, 0, action->step);
        break;
    case GW_ACT_FREEZE:
        trace->freeze_ns = gw_now_ns();
        break;
    case GW_ACT_SAVE:
        trace->save_ns = gw_now_ns();
        trace->save = action->token;
        trace->save_step = action->step;
        trace->save_chunks = action->save.count;
        break;
    case GW_ACT_NOTICE:
        add_notice(action);
        break;
    default:
        break;
    }
}

void gw_node_trace_event(gw_node_trace *trace, const gw_event *event, uint64_t step) {
    if (event->kind == GW_EV_SEALED) gw_trace_mark(GW_TRACE_SEALED, 0, step);
    if (event->kind != GW_EV_STORED || event->token != trace->save) return;
    gw_trace_end(GW_TRACE_SAVE, trace->save_ns, trace->save_chunks, trace->save_step, 0);
    trace->save_ns = 0;
}

void gw_node_trace_frozen(gw_node_trace *trace, uint64_t epoch) {
    gw_trace_end(GW_TRACE_FREEZE, trace->freeze_ns, 0, epoch, 0);
    trace->freeze_ns = 0;
}
