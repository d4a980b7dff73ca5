/* sync_dependency.h: what a synchronization waited for. */
#ifndef PITOT_EXPORT_SYNC_DEPENDENCY_H
#define PITOT_EXPORT_SYNC_DEPENDENCY_H

#include "export/export_view.h"

/*
 * Number of the work that ended last while a row of table synchronization waited for its stream or context, or NO_WORK
 * when none ended during the wait. Only the last work that began before the wait was over is looked at.
 */
uint32_t sync_dependency(const struct export_view *v, size_t process, uint64_t sync_row);

#endif
