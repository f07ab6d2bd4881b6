#include "call/witness.h"

#include "base/crc64.h"
#include "value/codec.h"
#include "value/paged.h"

#ifdef KELVIN_DEBUG

enum { VALUE_SIZE_MAX = 16 * 1024, SAMPLES = 8 };

struct witness {
    struct witness *next;
    struct keyspace *keyspace;
    struct bytes name;
    uint64_t hash, sum;
    bool is_paged;
};

static uint64_t sum_of(const struct value *value)
{
    struct buffer encoded = { 0 };
    uint64_t sum;

    if (value_is_paged(value))
        buffer_append(&encoded, paged_of(value), sizeof(struct paged_root));      /* of the pages not all may be there */
    else
        codec_encode(value, &encoded);
    sum = crc64(0, buffer_bytes(&encoded));
    buffer_release(&encoded);
    return sum;
}

void witness_note(const struct key *key)
{
    struct witness *witness;

    if (!value_is_object(&key->value) || value_memory(&key->value, SAMPLES) > VALUE_SIZE_MAX)
        return;
    witness = arena_alloc(key->call->arena, sizeof(*witness));
    *witness = (struct witness){ key->call->witnesses, key->keyspace, key->name, key->hash, sum_of(&key->value), value_is_paged(&key->value) };
    key->call->witnesses = witness;
}

bool witness_agrees(const struct call *call)
{
    for (const struct witness *witness = call->witnesses; witness != NULL; witness = witness->next) {
        uint32_t handle = keyspace_find(witness->keyspace, witness->hash, witness->name);
        struct value value;

        if (handle == 0)
            return false;
        value = entry_value(keyspace_entry(witness->keyspace, handle));
        if (value_is_object(&value) && value_is_paged(&value) != witness->is_paged)
            continue;               /* key_recode: the elements are somewhere else */
        if (!value_is_object(&value) || sum_of(&value) != witness->sum)
            return false;
    }
    return true;
}

#endif
