#include "sampler/python/remote_memory.h"

#include <string.h>
#include <sys/uio.h>

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
		n = process_vm_readv(pid, local, count, remote, count, 0);
	for (size_t i = n > 0 ? (size_t)n / REMOTE_LINE : 0; i < count; i++)
		m->address[lines[i]] = 0;
}

static const uint8_t *line_at(struct remote_memory *m, uint64_t address)
{
	unsigned at = (unsigned)(address / REMOTE_LINE % REMOTE_LINES);
	struct iovec local = { m->bytes[at], REMOTE_LINE }, remote = iovec_of(address);

	m->used[at] = true;
	if (m->address[at] == address)
		return m->bytes[at];
	m->address[at] = 0;
	m->used[at] = process_vm_readv(m->pid, &local, 1, &remote, 1, 0) == REMOTE_LINE;
	if (!m->used[at])
		return NULL;
	m->address[at] = address;
	return m->bytes[at];
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
