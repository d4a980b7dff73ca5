/*
 * decode.c: decode OUT.pitot, a recording with work of a table that only test_new_table.py
 * declares.
 */
#include <stdio.h>
#include <string.h>

#include "support/make_recording.h"

#define START UINT64_C(1000000000)

int main(int argc, char **argv)
{
	struct maker *m;

	if (argc != 2)
		return 2;
	m = maker_begin(argv[1], 100, START, "./decode");
	maker_device(m, 0, START);
	for (unsigned i = 0; i < 10; i++) {
		uint64_t at = START + 1000000 * i;
		struct row_video_decode row = {
			.start_ns = at + 20000,
			.end_ns = at + 50000,
			.codec = writer_string(m->writer, i % 2 ? "h264" : "av1", i % 2 ? 4 : 3),
			.correlation = i + 1,
			.stream = 7 + i % 2,
			.pictures = (UINT64_C(1) << 33) + i,
		};

		ROW_MISSING_IF(&row, video_decode, pictures, i == 9);

		maker_call(m, MAKER_LAUNCH, 100, at, at + 5000, i + 1);
		writer_append(m->writer, TABLE_video_decode, &row);
	}
	maker_close(m, START + 20000000);
	return 0;
}
