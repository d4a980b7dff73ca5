#include "analysis/roofline.h"

#include <math.h>
#include <string.h>

#include "analysis/counted_kernels.h"
#include "base/vec.h"
#include "trace/trace.h"

static const char *const clocks[] = {
	"dram__cycles_elapsed.avg.per_second", /* DRAM */
	"lts__cycles_elapsed.avg.per_second", /* L2 */
	"sm__cycles_elapsed.avg.per_second", /* L1 and all types */
};

/*
 * The work of a roof is the sum over its metrics of .sum times `operations`; its peak comes from
 * the first metric. An FP16 instruction works on a pair, and counts so even if code uses one half.
 */
struct part {
	const char *base;
	enum roof roof;
	unsigned operations;
};

#define SASS(type) "smsp__sass_thread_inst_executed_op_" type "_pred_on"
#define TENSOR(type) "sm__ops_path_tensor_src_" type

static const struct part parts[] = {
	{ "dram__bytes", ROOF_DRAM, 1 },
	{ "lts__t_bytes", ROOF_L2, 1 },
	{ "l1tex__t_bytes", ROOF_L1, 1 },
	{ SASS("dfma"), ROOF_FP64, 2 },
	{ SASS("dadd"), ROOF_FP64, 1 },
	{ SASS("dmul"), ROOF_FP64, 1 },
	{ SASS("ffma"), ROOF_FP32, 2 },
	{ SASS("fadd"), ROOF_FP32, 1 },
	{ SASS("fmul"), ROOF_FP32, 1 },
	{ SASS("hfma"), ROOF_FP16, 4 },
	{ SASS("hadd"), ROOF_FP16, 2 },
	{ SASS("hmul"), ROOF_FP16, 2 },
	{ TENSOR("fp64"), ROOF_TENSOR_FP64, 1 },
	{ TENSOR("tf32_dst_fp32"), ROOF_TENSOR_TF32, 1 },
	{ TENSOR("bf16_dst_fp32"), ROOF_TENSOR_BF16, 1 },
	{ TENSOR("fp16"), ROOF_TENSOR_FP16, 1 },
	{ TENSOR("fp16_dst_fp16"), ROOF_TENSOR_FP16_FP16, 1 },
	{ TENSOR("fp16_dst_fp32"), ROOF_TENSOR_FP16_FP32, 1 },
	{ TENSOR("fp8"), ROOF_TENSOR_FP8, 1 },
};

const char *roof_name(unsigned roof)
{
	static const char *const names[] = {
#define R(name, label) [ROOF_##name] = label,
		ROOFS(R)
#undef R
			[ROOF_NONE] = "none",
	};

	return names[roof];
}

/* Averages over the launches of a kernel. */
struct measured {
	double work[ROOFS_END], peak[ROOFS_END], clock[ARRAY_SIZE(clocks)]; /* NAN: unknown */
	uint32_t parts; /* bits: the measured parts */
};

static void add_metric(struct measured *m, const char *metric, double value)
{
	size_t length = strcspn(metric, ".");

	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++)
		if (!strcmp(metric, clocks[i]))
			m->clock[i] = value;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		const struct part *p = &parts[i];

		if (strlen(p->base) != length || memcmp(p->base, metric, length) != 0)
			continue;
		if (!strcmp(metric + length, ".sum")) {
			m->work[p->roof] += value * p->operations;
			m->parts |= 1u << i;
		} else if ((!i || p[-1].roof != p->roof) &&
			   !strcmp(metric + length, ".sum.peak_sustained")) {
			m->peak[p->roof] = value * p->operations;
		}
	}
}

static struct measured measure(const struct trace *t, const struct counter_of_kernel *items,
			       const struct counted_kernel *k)
{
	struct measured m = { .clock = { NAN, NAN, NAN } };

	for (unsigned i = 0; i < ROOFS_END; i++)
		m.peak[i] = NAN;
	for (size_t i = k->first; i < k->end; i++)
		if (items[i].count == k->launches && items[i].mean >= 0)
			add_metric(&m, trace_string(t, items[i].metric), items[i].mean);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (!(m.parts >> i & 1))
			m.work[parts[i].roof] = NAN;
	for (size_t i = 0; i < ROOFS_END; i++) {
		m.peak[i] *= m.clock[MIN(i, ARRAY_SIZE(clocks) - 1)];
		m.peak[i] = m.peak[i] > 0 ? m.peak[i] : NAN;
	}
	return m;
}

static void compute(struct roofline_point *p)
{
	double type = p->flops > 0 ? p->flops / p->peak_flops : 0;
	double level = p->bandwidth > 0 ? p->bandwidth / p->peak_bandwidth : 0;

	p->intensity = p->bandwidth > 0 ? p->flops / p->bandwidth : INFINITY;
	p->attainable = p->percent = NAN;
	p->limit = ROOF_NONE;
	if (isnan(type) || isnan(level))
		return;
	p->percent = 100 * MAX(type, level);
	if (p->percent > 0)
		p->limit = type >= level ? p->type : p->level;
	if (p->flops > 0)
		p->attainable = p->flops / MAX(type, level);
}

/*
 * Adds a point for each type that the kernel used. A kernel that used none has points of type
 * ROOF_NONE, unless only tensor cores were measured, because then it may have used other types.
 */
static int add_kernel(struct roofline *out, size_t *capacity, const struct counted_kernel *k,
		      const struct measured *m)
{
	double seconds = k->timed == k->launches ? k->total_ns / 1e9 / (double)k->launches : NAN;
	bool computes = false, any = false;

	for (unsigned i = 0; i < ROOFS_END; i++) {
		out->measured &= ~((uint32_t) !!isnan(m->work[i]) << i);
		out->unlimited |= (uint32_t)(m->work[i] > 0 && isnan(m->peak[i])) << i;
		computes |= i >= ROOF_TYPES && m->work[i] > 0;
		any |= i >= ROOF_TYPES &&
		       (m->work[i] > 0 || (i < ROOF_TENSOR_FP64 && !isnan(m->work[i])));
	}
	for (unsigned type = computes ? ROOF_TYPES : ROOF_NONE; any && type <= ROOF_NONE; type++) {
		for (unsigned level = 0; level < ROOF_TYPES; level++) {
			bool is_none = type == ROOF_NONE;
			struct roofline_point p = {
				.kernel = k->name,
				.number = k->number,
				.type = (uint8_t)type,
				.level = (uint8_t)level,
				.flops = is_none ? 0 : m->work[type] / seconds,
				.peak_flops = is_none ? NAN : m->peak[type],
				.bandwidth = m->work[level] / seconds,
				.peak_bandwidth = m->peak[level],
			};

			if (!(p.bandwidth >= 0) || (is_none ? computes : !(p.flops > 0)))
				continue;
			if (vec_grow((void **)&out->items, capacity, out->count + 1, sizeof(p)) < 0)
				return -ENOMEM;
			compute(&p);
			out->items[out->count++] = p;
		}
	}
	return 0;
}

int roofline_make(const struct trace *t, const struct counted_kernel *kernels, size_t count,
		  const struct counter_of_kernel *items, struct roofline *out)
{
	size_t capacity = 0;
	int err = 0;

	out->measured = UINT32_MAX;
	/* ranges have no counts of operations, because these come from patched code */
	for (size_t i = 0; i < count && err == 0; i++) {
		struct measured m = measure(t, items, &kernels[i]);

		err = add_kernel(out, &capacity, &kernels[i], &m);
	}
	return err;
}
