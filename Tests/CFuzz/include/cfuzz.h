#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Fuzz targets over our C, and libFuzzer's entry.  A target reads one input and returns NULL, or the
 * rule of ours that was broken.  Crashes and bad accesses are the sanitizers' to find.
 */

/** The head of a request and a chunked body, whole and cut at any byte. */
const char *cfuzz_gate(const uint8_t *bytes, size_t count);

/** Every function of CText at every level of this processor, beside the plainest code. */
const char *cfuzz_text(const uint8_t *bytes, size_t count);

/** libFuzzer's own; it is there only where the program was linked with it. */
int LLVMFuzzerRunDriver(
    int *argument_count, char ***arguments, int (*read)(const uint8_t *bytes, size_t count));
