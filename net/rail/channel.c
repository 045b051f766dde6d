#include "net/rail/channel.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

gw_cursor gw_cursor_on(const gw_rail_message *message) {
    return (gw_cursor){.parts = message->parts, .part_count = message->part_count, .left = message->bytes};
}

void gw_cursor_advance(gw_cursor *c, size_t bytes) {
    GW_ASSERT(bytes <= c->left);
    c->left -= bytes;
    while (bytes > 0) {
        GW_ASSERT(c->part < c->part_count);
        size_t here = c->parts[c->part].iov_len - c->offset;
        if (bytes < here) {
            c->offset += bytes;
            return;
        }
        bytes -= here;
        c->part++;
        c->offset = 0;
    }
}

uint32_t gw_cursor_parts(const gw_cursor *c, struct iovec *out, uint32_t most, size_t *bytes) {
    uint32_t count = 0;
    size_t offset = c->offset;
    *bytes = 0;
    for (uint32_t i = c->part; i < c->part_count && count < most && *bytes < c->left; i++, offset = 0) {
        size_t length = c->parts[i].iov_len - offset;
        if (length == 0) continue;
        out[count++] = (struct iovec){(uint8_t *)c->parts[i].iov_base + offset, length};
        *bytes += length;
    }
    return count;
}

uint8_t *gw_cursor_contiguous(gw_cursor *c, size_t bytes) {
    while (c->part < c->part_count && c->offset == c->parts[c->part].iov_len) {
        c->part++;
        c->offset = 0;
    }
    if (c->part == c->part_count || c->parts[c->part].iov_len - c->offset < bytes) return NULL;
    return (uint8_t *)c->parts[c->part].iov_base + c->offset;
}

void gw_cursor_copy(gw_cursor *c, uint8_t *bytes, size_t count, bool gather) {
    while (count > 0) {
        struct iovec part;
        size_t here;
        GW_ASSERT(gw_cursor_parts(c, &part, 1, &here) == 1);
        if (here > count) here = count;
        if (gather)
            memcpy(bytes, part.iov_base, here);
        else
            memcpy(part.iov_base, bytes, here);
        gw_cursor_advance(c, here);
        bytes += here;
        count -= here;
    }
}

/* Messages. */

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
        gw_fail(err, GW_E_PEER, "net/rail: the peer sent a malformed message");
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
