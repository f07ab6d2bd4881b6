/* Store keys (C++): their parts, and how LevelDB's tables are read. */
#ifndef KELVIN_STORE_STORE_KEY_H
#define KELVIN_STORE_STORE_KEY_H

#include <leveldb/options.h>
#include <stdint.h>

#include <string>

enum { STORE_INCARNATION_META = 0 };
constexpr uint32_t STORE_INCARNATION_EXPIRY = 0xffffffffu;

void key_append_u32(std::string *out, uint32_t number);
void key_append_u64(std::string *out, uint64_t number);
uint32_t key_u32(const char *bytes);
uint64_t key_u64(const char *bytes);

/* incarnation | hash: the first bytes of a store key. */
enum { STORE_KEY_PREFIX = 12, STORE_EXPIRY_PREFIX = 24 };
std::string key_prefix(uint32_t incarnation, uint64_t hash);
/* One of a database, not of meta data or expiries. */
bool key_is_of_database(uint32_t incarnation);

/* Checksums are verified, and no blocks are left in the cache. */
leveldb::ReadOptions read_options_scan(void);

#endif
