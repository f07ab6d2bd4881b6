#include "keyspace/page_name.h"

enum { NUMBER_SIZE = 4 };

void page_name(char name[PAGE_NAME_SIZE], uint64_t id, uint32_t number)
{
    for (int i = PAGE_NAME_SIZE; i-- > PAGE_NAME_SIZE - NUMBER_SIZE; number >>= 8)
        name[i] = (char)number;
    for (int i = PAGE_NAME_SIZE - NUMBER_SIZE; i-- > 0; id >>= 8)
        name[i] = (char)id;
}

bool page_name_parse(struct bytes name, uint64_t *id, uint32_t *number)
{
    if (name.size != PAGE_NAME_SIZE)
        return false;
    *id = *number = 0;
    for (int i = 0; i < PAGE_NAME_SIZE - NUMBER_SIZE; i++)
        *id = *id << 8 | (uint8_t)name.data[i];
    for (int i = PAGE_NAME_SIZE - NUMBER_SIZE; i < PAGE_NAME_SIZE; i++)
        *number = *number << 8 | (uint8_t)name.data[i];
    return true;
}

/* The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): a permutation in which each bit of the result depends
 * on all bits. */
static uint64_t scramble(uint64_t word)
{
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
    word = (word ^ word >> 27) * 0x94d049bb133111eb;
    return word ^ word >> 31;
}

uint64_t page_hash(struct bytes name)
{
    uint64_t id;
    uint32_t number;

    if (!page_name_parse(name, &id, &number))
        return 0;
    return id >> PAGE_ID_COUNT_BITS << SLOT_SHIFT | scramble(scramble(id) + number) >> SLOT_BITS;
}
