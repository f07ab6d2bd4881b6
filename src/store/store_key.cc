#include "store/store_key.h"

#include <string.h>

void key_append_u32(std::string *out, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        out->push_back(static_cast<char>(number >> shift));
}

void key_append_u64(std::string *out, uint64_t number)
{
    key_append_u32(out, static_cast<uint32_t>(number >> 32));
    key_append_u32(out, static_cast<uint32_t>(number));
}

uint32_t key_u32(const char *bytes)
{
    uint32_t number;

    memcpy(&number, bytes, sizeof(number));
    return __builtin_bswap32(number);
}

uint64_t key_u64(const char *bytes)
{
    uint64_t number;

    memcpy(&number, bytes, sizeof(number));
    return __builtin_bswap64(number);
}

std::string key_prefix(uint32_t incarnation, uint64_t hash)
{
    std::string key;

    key_append_u32(&key, incarnation);
    key_append_u64(&key, hash);
    return key;
}

bool key_is_of_database(uint32_t incarnation)
{
    return incarnation != STORE_INCARNATION_META && incarnation != STORE_INCARNATION_EXPIRY;
}

leveldb::ReadOptions read_options_scan(void)
{
    leveldb::ReadOptions options;

    options.verify_checksums = true;
    options.fill_cache = false;     /* a scan would evict everything from the small cache */
    return options;
}
