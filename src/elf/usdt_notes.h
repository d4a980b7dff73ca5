/*
 * usdt_notes.h: the static probes of a program (USDT), which section .note.stapsdt lists: places in
 * the code with a nop, on which a tracer may set a breakpoint, and where the arguments are then.
 *
 * A probe may have a semaphore, a 16-bit counter in section .probes: the program skips the probe,
 * with what it would compute for it, while the counter is 0.
 *
 * Input is untrusted. A probe is only returned if setting a breakpoint cannot harm the program: its
 * place is a nop of executable code in the file, and its semaphore lies in .probes.
 */
#ifndef PITOT_ELF_USDT_NOTES_H
#define PITOT_ELF_USDT_NOTES_H

#include "elf/elf_file.h"

struct usdt_probe {
	const char *name, *arguments; /* "malloc", "-8@%rbp -1@%al": by processor; in the file */
	uint64_t offset; /* in the file */
	uint64_t semaphore; /* offset of the semaphore in the file; 0: it has none */
};

/* Returns 0, or a negative code that ends the visits. */
typedef int usdt_visit(void *user, const struct usdt_probe *probe);

/*
 * Visits the probes of a provider. Returns how many there were; E_FORMAT if notes are malformed,
 * after the probes before them, or a probe is not where one can be; or what `visit` returned.
 */
int usdt_probes(const struct elf_file *f, const char *provider, usdt_visit *visit, void *user,
		struct error *e) MUST_USE;

#endif
