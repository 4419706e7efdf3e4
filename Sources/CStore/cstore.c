#include "cstore.h"

/* FNV-1a is enough per byte; the finaliser of MurmurHash3 spreads it, so that sums do not cancel. */
static uint64_t fold(uint64_t hash, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t cstore_entry_hash(const uint8_t *key, size_t key_len, const uint8_t *value, size_t value_len)
{
    uint64_t hash = fold(UINT64_C(0xcbf29ce484222325) ^ key_len, key, key_len);
    hash = fold(hash, value, value_len);
    hash ^= hash >> 33;
    hash *= UINT64_C(0xff51afd7ed558ccd);
    hash ^= hash >> 33;
    hash *= UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ hash >> 33;
}
