/*
 * loaded_libraries.h: the libraries of this process, as dl_iterate_phdr() gives them, without the
 * harm that it can do.
 *
 * dl_iterate_phdr() also looks for the calling thread's thread-local storage of each library, in a
 * list that another thread's dlopen() has not lengthened yet while its library is loaded already:
 * glibc 2.39, and what is like it, then follows a null pointer. A program with more than some sixty
 * libraries that have thread-local variables (PyTorch) dies of it when disks are slow. Here that
 * look is left out: only the first entry, the program itself, is the C library's own.
 */
#ifndef PITOT_ELF_LOADED_LIBRARIES_H
#define PITOT_ELF_LOADED_LIBRARIES_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Calls visit for each library with the C library's lock held, under which none comes or goes:
 * visit allocates nothing and calls nothing of the loader's. dlpi_tls_modid and dlpi_tls_data
 * are 0. Ends at the first value that is not 0, and returns it.
 */
typedef int loaded_library_visitor(struct dl_phdr_info *info, size_t size, void *user);
int loaded_libraries_visit(loaded_library_visitor *visit, void *user);

/*
 * The same, only for libraries that may have been added after `adds` of them had been, and those at
 * which is_wanted. The loader appends to its list, so these are the last ones, as many as were
 * added: whatever was removed, and whoever is now at its place.
 */
typedef bool loaded_library_filter(uintptr_t base, void *user);
int loaded_libraries_visit_since(unsigned long long adds, loaded_library_filter *is_wanted,
				 loaded_library_visitor *visit, void *user);

/* How many libraries have been added and removed since the start. Cheap. */
struct loaded_library_counts {
	unsigned long long adds, subs;
};
struct loaded_library_counts loaded_library_counts(void);

#endif
