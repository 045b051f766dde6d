#include "net/rail/channel.h"

#include "core/base/assert.h"

#include <stdlib.h>

bool gw_channel_take(gw_channel *channel, const gw_rail_user *user, gw_rail_message *message) {
    GW_ASSERT(!channel->out.active);
    if (!user->next(user->context, &channel->peer, message)) return false;
    GW_ASSERT(message->bytes <= channel->payload_most);
    channel->out.payload = gw_cursor_on(message);
    channel->out.active = true;
    return true;
}

void gw_channel_sent(gw_channel *channel, const gw_rail_user *user) {
    channel->out.active = false;
    if (channel->out.own == NULL) {
        user->sent(user->context, &channel->peer);
        return;
    }
    free(channel->out.own);
    channel->out.own = NULL;
}

gw_flow gw_channel_ask(gw_channel *channel, const gw_rail_user *user, gw_err *err) {
    gw_rail_message *message = &channel->in.message;
    GW_ASSERT(channel->in.state == GW_INCOMING_ASK);
    message->parts = NULL;
    message->part_count = 0;
    message->fold = false;
    switch (user->arrive(user->context, &channel->peer, message)) {
    case GW_ARRIVAL_PARK:
        channel->in.parked = true;
        return GW_FLOW_IDLE;
    case GW_ARRIVAL_REFUSE:
        gw_fail(err, GW_E_PEER, "net/channel: the peer sent a message that makes no sense");
        return GW_FLOW_BROKEN;
    case GW_ARRIVAL_LAND:
        channel->in.state = GW_INCOMING_LAND;
        break;
    case GW_ARRIVAL_DROP:
        channel->in.state = GW_INCOMING_DROP;
        break;
    }
    channel->in.payload = gw_cursor_on(message);
    return GW_FLOW_MORE;
}

void gw_channel_deliver(gw_channel *channel, const gw_rail_user *user, uint8_t *bytes, size_t count) {
    gw_incoming *in = &channel->in;
    GW_ASSERT(count <= in->payload.left);
    bool lands = in->state == GW_INCOMING_LAND, folds = lands && in->message.fold && user->fold != NULL;
    if (lands && !folds) {
        gw_cursor_copy(&in->payload, bytes, count, false);
        return;
    }
    uint32_t offset = in->message.bytes - (uint32_t)in->payload.left;
    if (folds && count > 0) user->fold(user->context, &channel->peer, offset, bytes, (uint32_t)count);
    in->payload.left -= count;
}

void gw_channel_received(gw_channel *channel, const gw_rail_user *user) {
    bool landed = channel->in.state == GW_INCOMING_LAND;
    channel->in.state = GW_INCOMING_HEAD;
    if (landed) user->landed(user->context, &channel->peer);
}

bool gw_channel_release(gw_channel *channel) {
    gw_outgoing *out = &channel->out;
    if (channel->in.state == GW_INCOMING_LAND) channel->in.state = GW_INCOMING_DROP;
    if (!out->active || out->own != NULL) return true;
    size_t left = out->payload.left;
    uint8_t *own = malloc(left + 1);
    if (own == NULL) {
        out->active = false;
        return false;
    }
    gw_cursor_copy(&out->payload, own, left, true);
    out->own = own;
    out->own_part = (struct iovec){own, left};
    out->payload = (gw_cursor){.parts = &out->own_part, .part_count = 1, .left = left};
    return true;
}
