/* start_time.h: when recording begins, as a time of the day: --start-at. */
#ifndef PITOT_RECORD_START_TIME_H
#define PITOT_RECORD_START_TIME_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

/*
 * Parses "/10s": the next multiple of 10 s since the epoch, which hosts with equal clocks find
 * without agreeing on anything; "12:30" or "12:30:15": the next such local time;
 * "2026-01-31T12:30:15", local, or with "Z" in UTC. now_ns, *at_ns: CLOCK_REALTIME. 0, or
 * E_USAGE, also if the time is over.
 */
int start_time_parse(const char *text, uint64_t now_ns, uint64_t *at_ns, struct error *e) MUST_USE;

#endif
