#include "config/limits.h"

#include "config/config.h"
#include "value/value.h"

void limits_read(const struct config *config, struct value_limits *limits)
{
    limits->hash_listpack_entries_max = (size_t)config_number(config, CONFIG_HASH_MAX_LISTPACK_ENTRIES);
    limits->hash_listpack_value_max = (size_t)config_number(config, CONFIG_HASH_MAX_LISTPACK_VALUE);
    limits->set_intset_entries_max = (size_t)config_number(config, CONFIG_SET_MAX_INTSET_ENTRIES);
    limits->set_listpack_entries_max = (size_t)config_number(config, CONFIG_SET_MAX_LISTPACK_ENTRIES);
    limits->set_listpack_value_max = (size_t)config_number(config, CONFIG_SET_MAX_LISTPACK_VALUE);
    limits->zset_listpack_entries_max = (size_t)config_number(config, CONFIG_ZSET_MAX_LISTPACK_ENTRIES);
    limits->zset_listpack_value_max = (size_t)config_number(config, CONFIG_ZSET_MAX_LISTPACK_VALUE);
    limits->list_fill = (int)config_number(config, CONFIG_LIST_MAX_LISTPACK_SIZE);
    limits->list_depth = (int)config_number(config, CONFIG_LIST_COMPRESS_DEPTH);
    limits->page_threshold = (size_t)config_number(config, CONFIG_TIER_PAGE_THRESHOLD);
    limits->page_size = (size_t)config_number(config, CONFIG_TIER_PAGE_SIZE);
    limits->stream_node_size_max = (size_t)config_number(config, CONFIG_STREAM_NODE_MAX_BYTES);
    limits->stream_node_entries_max = (size_t)config_number(config, CONFIG_STREAM_NODE_MAX_ENTRIES);
}
