#pragma once
#include <stddef.h>
#include <stdint.h>

uint64_t cstore_entry_hash(const uint8_t *key, size_t key_len, const uint8_t *value, size_t value_len);
