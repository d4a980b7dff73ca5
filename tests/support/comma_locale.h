/* comma_locale.h: a locale whose decimal separator is a comma. */
#ifndef PITOT_TESTS_COMMA_LOCALE_H
#define PITOT_TESTS_COMMA_LOCALE_H

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Selects the locale for LC_NUMERIC, which the caller resets to "C". Returns false if it cannot be
 * made: localedef is missing.
 */
static inline bool comma_locale_set(void)
{
	char folder[] = "/tmp/pitot-locale-XXXXXX", command[512];
	bool set;

	if (!mkdtemp(folder))
		return false;
	snprintf(command, sizeof(command),
		 "cd %s && printf 'LC_NUMERIC\\ndecimal_point \",\"\\nthousands_sep \"\"\\n"
		 "grouping -1\\nEND LC_NUMERIC\\n' >source && "
		 "localedef -c -i ./source ./comma >/dev/null 2>&1; [ -d comma ]",
		 folder);
	set = system(command) == 0 && setenv("LOCPATH", folder, 1) == 0 &&
	      setlocale(LC_NUMERIC, "comma");
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command) == 0 && set;
}

#endif
