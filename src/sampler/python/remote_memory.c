#include "sampler/python/remote_memory.h"

#include <string.h>
#include <sys/uio.h>

#include "sampler/process_memory.h"

#define AHEAD_MAX 64u /* lines that are read at a time */

static struct iovec iovec_of(uint64_t address)
{
	return (struct iovec){ (void *)(uintptr_t)address, REMOTE_LINE };
}

void remote_memory_begin(struct remote_memory *m, pid_t pid)
{
	struct iovec local[REMOTE_LINES], remote[REMOTE_LINES];
	unsigned lines[REMOTE_LINES], count = 0;
	ssize_t n = 0;

	for (unsigned i = 0; i < REMOTE_LINES; i++) {
		if (pid == m->pid && m->used[i]) {
			lines[count] = i;
			local[count] = (struct iovec){ m->bytes[i], REMOTE_LINE };
			remote[count++] = iovec_of(m->address[i]);
		} else {
			m->address[i] = 0;
		}
		m->used[i] = false;
	}
	m->pid = pid;
	if (count)
		n = process_memory_read(pid, local, count, remote, count);
	for (size_t i = n > 0 ? (size_t)n / REMOTE_LINE : 0; i < count; i++)
		m->address[lines[i]] = 0;
}

static unsigned slot_of(uint64_t address)
{
	return (unsigned)(address / REMOTE_LINE % REMOTE_LINES);
}

/* Reads `count` lines, of which the last is at `address`. Returns false unless all are readable. */
static bool read_lines(struct remote_memory *m, uint64_t address, unsigned count)
{
	uint64_t first = address - (count - 1) * (uint64_t)REMOTE_LINE;
	struct iovec local[AHEAD_MAX] = { 0 };
	struct iovec remote = { (void *)(uintptr_t)first, (size_t)count * REMOTE_LINE };
	bool all;

	for (unsigned i = 0; i < count; i++) {
		unsigned at = slot_of(first + i * (uint64_t)REMOTE_LINE);

		m->address[at] = 0;
		local[i] = (struct iovec){ m->bytes[at], REMOTE_LINE };
	}
	all = process_memory_read(m->pid, local, count, &remote, 1) == (ssize_t)remote.iov_len;
	for (unsigned i = 0; all && i < count; i++) {
		uint64_t line = first + i * (uint64_t)REMOTE_LINE;

		m->address[slot_of(line)] = line;
	}
	return all;
}

/*
 * Frames of deep recursions are at descending addresses: after two lines that follow each other so,
 * more and more are read at a time.
 */
static bool read_ahead(struct remote_memory *m, uint64_t address)
{
	bool continues = address + REMOTE_LINE == m->lowest;
	unsigned count = continues ? MIN(2 * m->ahead, AHEAD_MAX) : 1;

	if (address / REMOTE_LINE < count || !read_lines(m, address, count)) {
		count = 1;
		if (!read_lines(m, address, count))
			return false;
	}
	m->ahead = count;
	m->lowest = address - (count - 1) * (uint64_t)REMOTE_LINE;
	return true;
}

static const uint8_t *line_at(struct remote_memory *m, uint64_t address)
{
	unsigned at = slot_of(address);

	m->used[at] = m->address[at] == address || read_ahead(m, address);
	return m->used[at] ? m->bytes[at] : NULL;
}

bool remote_memory_read(void *context, uintptr_t address, void *out, size_t size)
{
	uint8_t *to = out;

	while (size) {
		uint64_t start = address & ~(uint64_t)(REMOTE_LINE - 1);
		size_t part = MIN(size, start + REMOTE_LINE - address);
		const uint8_t *line = start ? line_at(context, start) : NULL;

		if (!line)
			return false;
		memcpy(to, line + (address - start), part);
		to += part;
		address += part;
		size -= part;
	}
	return true;
}
