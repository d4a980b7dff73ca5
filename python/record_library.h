/* record_library.h: libpitot.so, as the module found it in this process or loaded it. */
#ifndef PITOT_PYTHON_RECORD_LIBRARY_H
#define PITOT_PYTHON_RECORD_LIBRARY_H

#include "record_options.h"

#define FUNCTIONS(F)                                                                               \
	F(start)                                                                                   \
	F(stop)                                                                                    \
	F(path)                                                                                    \
	F(flush)                                                                                   \
	F(dump)                                                                                    \
	F(init)                                                                                    \
	F(shutdown)                                                                                \
	F(upload)                                                                                  \
	F(error)                                                                                   \
	F(scope_begin)                                                                             \
	F(scope_begin_runs)                                                                        \
	F(scope_end)                                                                               \
	F(scope_start)                                                                             \
	F(scope_finish)                                                                            \
	F(mark)                                                                                    \
	F(system_start)                                                                            \
	F(system_stop)                                                                             \
	F(external_push)                                                                           \
	F(external_pop)                                                                            \
	F(engine_begin)                                                                            \
	F(engine_end)                                                                              \
	F(counter)                                                                                 \
	F(counter_add)                                                                             \
	F(gauge)

struct recorder {
#define F(name) __typeof__(&pitot_##name) name;
	FUNCTIONS(F)
#undef F
};

/* All functions or none. */
extern struct recorder recorder;
/* The reason for having none. */
extern char no_recorder[];

/* Sets both, in the order that record_module.c explains. Once, when the module is imported. */
void find_recorder(void);

#endif
