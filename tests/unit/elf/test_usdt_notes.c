/*
 * Static probes are found where the notes of a file say, and only where a breakpoint can be. The
 * file is this program, which has probes of its own.
 */
#include "elf/usdt_notes.h"

#include <string.h>

#include "base/io.h"
#include "base/bytes.h"
#include "support/cmocka_tests.h"

__attribute__((section(".probes"), used)) static volatile unsigned short semaphore = 1, other;

/* The head of a note: the addresses of the probe, of the base and of the semaphore. */
#define HEAD "993: .8byte 990b, 0, "
#define NOTE(provider, name, place_of_semaphore, operands)                                         \
	"990: nop\n"                                                                               \
	".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n"                                    \
	".4byte 992f-991f, 994f-993f, 3\n"                                                         \
	"991: .asciz \"stapsdt\"\n"                                                                \
	"992: .balign 4\n" HEAD place_of_semaphore "\n"                                            \
	".asciz \"" provider "\", \"" name "\", \"" operands "\"\n"                                \
	"994: .balign 4\n.popsection\n"

static __attribute__((noinline, used)) void program(void)
{
	__asm__ volatile(NOTE("toys", "start", "semaphore", "-8@%rdi 4@$7"));
	__asm__ volatile(NOTE("others", "start", "0", "-8@%rsi"));
	__asm__ volatile(NOTE("toys", "stop", "0", ""));
}

#define SELF "/proc/self/exe"

struct file {
	struct strbuf bytes;
	struct elf_file elf;
	uint8_t *first; /* contents of the first note of toys */
};

static struct file open_self(void)
{
	struct file f = { .bytes = STRBUF_INIT };
	struct elf_bytes notes;

	program();
	assert_int_equal(io_read_file(SELF, 256u << 20, &f.bytes), 0);
	assert_int_equal(elf_file_open_bytes(f.bytes.data, f.bytes.length, &f.elf, NULL), 0);
	notes = elf_raw_contents(&f.elf, elf_section(&f.elf, ".note.stapsdt"));
	f.first = memmem(notes.data, notes.size, "toys\0start", 10);
	assert_non_null(f.first);
	f.first -= 24;
	return f;
}

static void close_self(struct file *f)
{
	elf_file_release(&f->elf);
	strbuf_release(&f->bytes);
}

struct found {
	unsigned count;
	struct usdt_probe probes[4];
	int answer;
};

static int visit(void *user, const struct usdt_probe *probe)
{
	struct found *f = user;

	f->probes[f->count++ % ARRAY_SIZE(f->probes)] = *probe;
	return f->answer;
}

static int count(const struct file *f, const char *provider, struct error *e)
{
	struct found found = { 0 };
	int rc = usdt_probes(&f->elf, provider, visit, &found, e);

	if (rc >= 0)
		assert_int_equal(rc, found.count);
	return rc;
}

static void probes_are_where_the_notes_say(void **state)
{
	struct file f = open_self();
	const struct elf_section *text = elf_section(&f.elf, ".text");
	struct found found = { 0 };
	const uint16_t *counter;

	(void)state;
	assert_int_equal(usdt_probes(&f.elf, "toys", visit, &found, NULL), 2);
	assert_string_equal(found.probes[0].name, "start");
	assert_string_equal(found.probes[0].arguments, "-8@%rdi 4@$7");
	assert_string_equal(found.probes[1].name, "stop");
	assert_string_equal(found.probes[1].arguments, "");
	counter = (const uint16_t *)(f.elf.bytes + found.probes[0].semaphore);
	assert_int_equal(*counter, semaphore);
	assert_int_equal(found.probes[1].semaphore, 0);
	assert_int_equal(found.probes[0].offset, load_u64(f.first) - text->address + text->offset);
	assert_true(found.probes[1].offset > found.probes[0].offset);
	assert_int_equal(count(&f, "others", NULL), 1);
	assert_int_equal(count(&f, "toy", NULL), 0);
	found.answer = -7;
	assert_int_equal(usdt_probes(&f.elf, "toys", visit, &found, NULL), -7);
	close_self(&f);
}

/* Places at which a breakpoint, or counting the semaphore, would change the program. */
static void forged_places_are_refused(void **state)
{
	struct file f = open_self();
	uint64_t address = load_u64(f.first), counter = load_u64(f.first + 16);
	const struct elf_section *text = elf_section(&f.elf, ".text"),
				 *data = elf_section(&f.elf, ".data"),
				 *probes = elf_section(&f.elf, ".probes");
	const uint64_t addresses[] = {
		0,
		UINT64_MAX,
		address + (UINT64_C(1) << 40),
		data->address,
		text->address,
		text->address + text->size,
		address - 1,
	};
	const uint64_t semaphores[] = {
		1,
		UINT64_MAX,
		counter + 1,
		counter + probes->size,
		probes->address - 2,
		probes->address + probes->size - 1,
		text->address,
		data->address,
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
		struct error e = { 0 };

		store_u64(f.first, addresses[i]);
		assert_int_equal(count(&f, "toys", &e), E_FORMAT);
		assert_non_null(strstr(e.text, "toys:start"));
	}
	store_u64(f.first, address);
	for (size_t i = 0; i < ARRAY_SIZE(semaphores); i++) {
		store_u64(f.first + 16, semaphores[i]);
		assert_int_equal(count(&f, "toys", NULL), E_FORMAT);
	}
	store_u64(f.first + 16, counter);
	assert_int_equal(count(&f, "toys", NULL), 2);
	close_self(&f);
}

/* A prelinker has moved the code by as much as .stapsdt.base: this program has no such section. */
static void a_base_without_its_section_moves_nothing(void **state)
{
	struct file f = open_self();

	(void)state;
	store_u64(f.first + 8, 0x1000);
	assert_int_equal(count(&f, "toys", NULL), 2);
	close_self(&f);
}

static void forged_lengths_are_refused(void **state)
{
	static const uint32_t lengths[] = { 0, 23, 24, 28, 0x7fffffff, UINT32_MAX };
	struct file f = open_self();
	uint8_t *size = f.first - 16; /* behind it: the type, and "stapsdt" */

	(void)state;
	assert_memory_equal(f.first - 8, "stapsdt", 8);
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		uint32_t before = load_u32(size);

		store_u32(size, lengths[i]);
		assert_int_equal(count(&f, "toys", NULL), E_FORMAT);
		store_u32(size, before);
		before = load_u32(size - 4);
		store_u32(size - 4, lengths[i]);
		(void)!count(&f, "toys", NULL); /* another note's name may be skipped */
		store_u32(size - 4, before);
	}
	assert_int_equal(count(&f, "toys", NULL), 2);
	close_self(&f);
}

/* Of the notes, every shorter piece is either whole notes or an error. */
static void cut_notes_are_errors(void **state)
{
	struct file f = open_self();
	struct elf_section *notes = elf_section(&f.elf, ".note.stapsdt");
	uint64_t whole = notes->size;
	unsigned errors = 0;

	(void)state;
	for (notes->size = 0; notes->size < whole; notes->size++) {
		int rc = count(&f, "toys", NULL);

		assert_true(rc == E_FORMAT || (rc >= 0 && rc <= 2));
		errors += rc == E_FORMAT;
	}
	assert_true(errors > whole / 2);
	notes->size = UINT64_MAX - notes->offset;
	assert_int_equal(count(&f, "toys", NULL), 0);
	close_self(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(probes_are_where_the_notes_say),
		cmocka_unit_test(forged_places_are_refused),
		cmocka_unit_test(a_base_without_its_section_moves_nothing),
		cmocka_unit_test(forged_lengths_are_refused),
		cmocka_unit_test(cut_notes_are_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
