/* temp_folder.h: a folder for one test, removed with all that is in it. */
#ifndef PITOT_TESTS_TEMP_FOLDER_H
#define PITOT_TESTS_TEMP_FOLDER_H

/*
 * Path of a new, empty folder; to be handed to temp_folder_remove. Ends the program where there
 * can be none.
 */
char *temp_folder_make(void);
void temp_folder_remove(char *path);

/* "folder/name" in one of a few static buffers, for use within one expression. */
const char *temp_file(const char *folder, const char *name);

#endif
