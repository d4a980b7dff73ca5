/* layer: recover */
/*
 * The memory that a process has left, written by somebody else. The input patches an area that has
 * something of everything: pieces of a byte for the part, three for the offset in it, one for the
 * length, and the bytes.
 */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bytes.h"
#include "recover/recover.h"
#include "support/made_area.h"

static void remove_folder(const char *path)
{
	DIR *list = opendir(path);
	struct dirent *entry;

	while (list && (entry = readdir(list)))
		if (*entry->d_name != '.')
			unlinkat(dirfd(list), entry->d_name, 0);
	closedir(list);
	rmdir(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct cursor in = cursor_of(bytes, size);
	char path[] = "/tmp/fuzz-area-XXXXXX";
	struct folder_id id = { 0 };
	struct recovered found;
	int memory = area_make(), rc;

	if (!mkdtemp(path))
		abort();
	while (cursor_left(&in) > 5) {
		unsigned part = cursor_u8(&in);
		uint64_t offset = cursor_u32(&in);
		unsigned length = (unsigned)(offset >> 24);
		const uint8_t *patch = cursor_bytes(&in, length);

		if (!patch)
			break;
		if (part < AREA_PART_COUNT)
			area_put(memory, (enum area_part)part, offset & 0xffffff, patch, length);
	}
	rc = recover_area(memory, path, &id, &found, NULL);
	if (size == 0 &&
	    (rc != 1 || found.rows != AREA_ROWS || found.calls != 1 || found.ranges != 1 ||
	     found.records != 1 || found.others || found.unknown != 1 || found.lost))
		abort(); /* an area as it should be */
	close(memory);
	remove_folder(path);
	return 0;
}
