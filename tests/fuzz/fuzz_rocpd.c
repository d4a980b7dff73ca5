/* layer: import */
/* Any bytes as a database: what comes out is a recording, or nothing. */
#include "fuzz_database.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	return fuzz_database("rocpd", bytes, size);
}
