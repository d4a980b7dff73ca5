/*
 * rule_feed.h: makes facts (rule_watch.h) of the blocks of segments, finished or growing.
 *
 * A segment has the definitions of all that it refers to, so that what is known of names is
 * forgotten with it: memory does not grow with the strings that a program makes. Only tables that
 * the rules need are decoded. Nothing in segments is trusted; damaged blocks have no facts.
 */
#ifndef PITOT_RULES_RULE_FEED_H
#define PITOT_RULES_RULE_FEED_H

#include "format/reader.h"
#include "rules/rule_watch.h"

struct rule_feed;
struct rule_segment;

/* NULL: no memory. The watch must outlive the feed. */
struct rule_feed *rule_feed_new(const struct rule *rules, unsigned count,
				struct rule_watch *watch) MUST_USE;
void rule_feed_free(struct rule_feed *f);

struct rule_watch *rule_feed_watch(const struct rule_feed *f);
typedef void rule_fact_seen(void *user, const struct fact *fact);
/*
 * Passes all facts on to `seen` as well, in the same order, and makes those about launches and GPU
 * work whatever the rules need. To be called before segments are read.
 */
void rule_feed_observe(struct rule_feed *f, rule_fact_seen *seen, void *user);
/* Facts for which there was no room. */
uint64_t rule_feed_forgotten(const struct rule_feed *f);
/* The name of a range that rules are about, by `instance` of its fact; "": unknown. */
const char *rule_feed_range_name(const struct rule_feed *f, uint32_t instance);
/* Opens a segment. Returns 0 or a negative code. */
int rule_segment_open(struct rule_feed *f, const char *path, struct rule_segment **out,
		      struct error *e) MUST_USE;
void rule_segment_free(struct rule_segment *s);
/* Reads the blocks that were appended since. Returns 0 or a negative code. */
int rule_segment_read(struct rule_feed *f, struct rule_segment *s);
/*
 * Reads only what the segment defines, up to the first block with a time since then, where the next
 * rule_segment_read() begins. Blocks are skipped by their place: those of a launch and of its work
 * are near each other, whatever the clocks say.
 */
void rule_segment_skip(struct rule_feed *f, struct rule_segment *s, uint64_t since_ns);

/* For finished recordings: what segments define, their blocks, and one of these. */
void rule_segment_define(struct rule_feed *f, struct rule_segment *s);
const struct segment *rule_segment_blocks(const struct rule_segment *s);
void rule_segment_read_block(struct rule_feed *f, struct rule_segment *s, size_t block);
uint32_t rule_segment_process(const struct rule_segment *s);

/* Adds a fact that is in no segment. If too many wait for their time, it is forgotten. */
void rule_feed_add(struct rule_feed *f, struct fact fact);
/* Passes facts on to the watch, up to a time. */
void rule_feed_pass(struct rule_feed *f, uint64_t until_ns);

/*
 * Evaluates rules in a finished recording, the folder of segments or one of them. Returns 0 or a
 * negative code. In rule_recording.c.
 */
int rule_feed_recording(const char *path, const struct rule *rules, unsigned count,
			rule_fired *fired, void *user, struct error *e) MUST_USE;

#endif
