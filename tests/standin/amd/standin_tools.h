/*
 * standin_tools.h: tools of the stand-in for ROCprofiler-SDK: which it finds, by the rules of the
 * SDK's public source, when they configure themselves, and when they end.
 */
#ifndef STANDIN_TOOLS_H
#define STANDIN_TOOLS_H

#include <stdbool.h>

/* Tools have configured themselves: contexts and services can no longer be made. */
extern bool standin_locked;
/* Tools have been finalized: no function works any more. */
extern bool standin_finalized;

/* Finds tools and configures them, once in a process; `flush` is called before they end. */
void standin_tools_start(void (*flush)(void));

#endif
