/*
 * fuzz.h: what a fuzzer defines. It must leave nothing behind, and must not depend on what ran
 * before.
 */
#ifndef PITOT_TEST_FUZZ_H
#define PITOT_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#endif
