/*
 * loaded_libraries.h: the libraries of this process like dl_iterate_phdr(), but without its crash.
 *
 * dl_iterate_phdr() also looks up the calling thread's TLS block of each library. During another
 * thread's dlopen() the library is listed before its TLS slot exists, and glibc 2.39 and similar
 * versions then dereference a null pointer. A program with more than about sixty libraries with
 * thread-local variables (PyTorch) crashes that way when disks are slow. The TLS lookup is avoided
 * here: only the first entry, the program itself, comes from the C library.
 */
#ifndef PITOT_ELF_LOADED_LIBRARIES_H
#define PITOT_ELF_LOADED_LIBRARIES_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Calls visit for each library while the C library's lock prevents loading and unloading; visit
 * must not allocate or call a loader function. dlpi_tls_modid and dlpi_tls_data are 0. Stops when
 * visit returns non-zero, and returns that value.
 */
typedef int loaded_library_visitor(struct dl_phdr_info *info, size_t size, void *user);
int loaded_libraries_visit(loaded_library_visitor *visit, void *user);

/*
 * Same, but only for libraries that may have been added after the first `adds`, and for those for
 * which is_wanted returns true. The loader appends to its list, so the last ones, as many as were
 * added, may be new, whatever was removed.
 */
typedef bool loaded_library_filter(uintptr_t base, void *user);
int loaded_libraries_visit_since(unsigned long long adds, loaded_library_filter *is_wanted,
				 loaded_library_visitor *visit, void *user);

/* Returns how many libraries have been added and removed since the start. Cheap. */
struct loaded_library_counts {
	unsigned long long adds, subs;
};
struct loaded_library_counts loaded_library_counts(void);

#endif
