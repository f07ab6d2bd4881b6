/* Topic: what a client subscribes to. Channels, shard channels and patterns are three name spaces: a message to a channel reaches the
 * subscribers of the channel and of all patterns that match it; a message to a shard channel only those of the shard channel.
 */
#ifndef KELVIN_PUBSUB_TOPIC_H
#define KELVIN_PUBSUB_TOPIC_H

enum topic_kind { TOPIC_CHANNEL, TOPIC_SHARD, TOPIC_PATTERN, TOPIC_KINDS };

#endif
