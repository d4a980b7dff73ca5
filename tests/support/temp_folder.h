/* temp_folder.h: a temporary folder for one test. */
#ifndef PITOT_TESTS_TEMP_FOLDER_H
#define PITOT_TESTS_TEMP_FOLDER_H

/*
 * Returns the path of a new, empty folder, to be removed with temp_folder_remove(). Ends the
 * program on failure.
 */
char *temp_folder_make(void);
void temp_folder_remove(char *path);

/* Returns "folder/name" in one of a few static buffers, for use within one expression. */
const char *temp_file(const char *folder, const char *name);

#endif
