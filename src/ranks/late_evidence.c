#include "ranks/late_evidence.h"

#include <errno.h>
#include <stdlib.h>

#include "base/resample.h"

#define RESAMPLES 1000u
#define SEED UINT64_C(0x6c617465)

static void add(struct late_round *sum, const struct late_round *round)
{
	sum->span_ns += round->span_ns;
	sum->all_ns += round->all_ns;
	sum->own_ns += round->own_ns;
}

static double share_of(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

static void resample(const struct late_round *rounds, size_t count, uint64_t span_ns,
		     double *shares, struct late_evidence *out)
{
	uint64_t state = SEED;

	for (size_t i = 0; i < RESAMPLES; i++) {
		struct late_round sum = { 0 };

		for (size_t k = 0; k < count; k++)
			add(&sum, &rounds[resample_random(&state) % count]);
		shares[i] = share_of(sum.all_ns, span_ns);
		shares[RESAMPLES + i] = share_of(sum.own_ns, span_ns);
		shares[2 * RESAMPLES + i] = share_of(sum.own_ns, sum.all_ns);
	}
	resample_bounds(shares, RESAMPLES, &out->all.low, &out->all.high);
	resample_bounds(shares + RESAMPLES, RESAMPLES, &out->own.low, &out->own.high);
	resample_bounds(shares + 2 * RESAMPLES, RESAMPLES, &out->part.low, &out->part.high);
}

int late_evidence_find(const struct late_round *rounds, size_t count, struct late_evidence *out)
{
	size_t drawn = MIN(count, LATE_ROUNDS_MOST);
	struct late_round *joined = calloc(drawn + 1, sizeof(*joined)), sum = { 0 };
	_cleanup_free_ double *shares = malloc(3 * RESAMPLES * sizeof(*shares));
	int rc = joined && shares ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && !rc; i++) {
		add(&joined[i * drawn / count], &rounds[i]);
		add(&sum, &rounds[i]);
	}
	*out = (struct late_evidence){
		.all = { share_of(sum.all_ns, sum.span_ns), NAN, NAN },
		.own = { share_of(sum.own_ns, sum.span_ns), NAN, NAN },
		.part = { share_of(sum.own_ns, sum.all_ns), NAN, NAN },
	};
	if (!rc && drawn >= LATE_ROUNDS_LEAST)
		resample(joined, drawn, sum.span_ns, shares, out);
	free(joined);
	return rc;
}
