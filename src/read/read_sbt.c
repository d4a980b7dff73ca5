/* read_sbt.c: TraceSmith's files in the public API, event by event. */
#include <string.h>

#include "base/io.h"
#include "base/output.h"
#include "format/sbt_file.h"
#include "pitot/read.h"
#include "read/read_table.h"

struct reading {
	struct sbt_reader file;
	pitot_sbt_add *add;
	void *user;
	struct pitot_sbt_frame frames[PITOT_SBT_FRAMES_MAX];
};

static struct pitot_sbt_text public_text(const struct sbt_text *t)
{
	return t ? (struct pitot_sbt_text){ t->bytes, t->length }
		 : (struct pitot_sbt_text){ "", 0 };
}

static int add_event(void *user, struct sbt_event *v)
{
	struct reading *r = user;
	struct pitot_sbt_event out = { .type = v->type,
				       .has = v->flags,
				       .time_ns = v->time_ns,
				       .duration_ns = v->duration_ns,
				       .correlation = v->correlation,
				       .device = v->device,
				       .stream = v->stream,
				       .thread = v->thread,
				       .name = public_text(sbt_string(&r->file, v->name)),
				       .frames = r->frames };

	memcpy(out.kernel, v->kernel, sizeof(out.kernel));
	memcpy(out.memory, v->memory, sizeof(out.memory));
	for (; out.frame_count < MIN(v->frame_count, PITOT_SBT_FRAMES_MAX); out.frame_count++) {
		struct sbt_frame f = sbt_next_frame(&v->frames);

		r->frames[out.frame_count] =
			(struct pitot_sbt_frame){ f.address, f.line,
						  public_text(sbt_string(&r->file, f.function)),
						  public_text(sbt_string(&r->file, f.file)) };
	}
	return r->add(r->user, &out);
}

int pitot_sbt_read(const char *path, pitot_sbt_add *add, pitot_sbt_about *about, void *user,
		   struct pitot_read_error *error)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	struct reading r = { .file = { .path = path, .add = add_event, .user = &r },
			     .add = add,
			     .user = user };
	const struct sbt_metadata *m = &r.file.metadata;
	struct error e = { 0 };
	int rc = io_read_file(path, SBT_FILE_BYTES_MAX, &bytes);

	if (rc < 0)
		error_set(&e, rc, "cannot read '%s': %s", path, error_code_text(rc));
	r.file.bytes = (const uint8_t *)strbuf_text(&bytes);
	r.file.size = bytes.length;
	if (rc >= 0)
		rc = sbt_read(&r.file, &e);
	if (rc >= 0)
		about(user,
		      &(struct pitot_sbt_info){ public_text(&m->name), public_text(&m->command),
						public_text(&m->host), m->start_ns, m->end_ns,
						m->pid, r.file.broken });
	sbt_reader_release(&r.file);
	return read_finish(rc, &e, error);
}

static struct sbt_text text_of(struct pitot_sbt_text t)
{
	return (struct sbt_text){ t.bytes, t.length };
}

static void put_event(struct sbt_writer *w, const struct pitot_sbt_event *v)
{
	struct sbt_event out = { .type = (uint8_t)v->type,
				 .flags = (uint8_t)v->has,
				 .device = v->device,
				 .stream = v->stream,
				 .thread = v->thread,
				 .time_ns = v->time_ns,
				 .duration_ns = v->duration_ns,
				 .correlation = v->correlation,
				 .name = sbt_number(w, v->name.bytes, v->name.length),
				 .frame_count = v->frame_count };

	memcpy(out.kernel, v->kernel, sizeof(out.kernel));
	memcpy(out.memory, v->memory, sizeof(out.memory));
	sbt_put_event(w, &out);
	for (size_t i = 0; i < v->frame_count && v->has & PITOT_SBT_STACK; i++) {
		const struct pitot_sbt_frame *f = &v->frames[i];
		struct sbt_frame frame = { f->address,
					   sbt_number(w, f->function.bytes, f->function.length),
					   sbt_number(w, f->file.bytes, f->file.length), f->line };

		sbt_put_frame(w, &frame);
	}
}

int pitot_sbt_write(const char *path, const struct pitot_sbt_info *info, pitot_sbt_next *next,
		    void *user, struct pitot_read_error *error)
{
	struct sbt_writer w;
	struct pitot_sbt_event event;
	struct error e = { 0 };
	struct output *output = output_open(path, true, &e);
	int rc;

	if (!output)
		return read_finish(e.code, &e, error);
	sbt_begin(&w, &(struct sbt_metadata){ text_of(info->application), text_of(info->command),
					      text_of(info->host), info->start_ns, info->end_ns,
					      info->pid });
	sbt_begin_devices(&w, 0);
	while ((rc = next(user, &event)) > 0) {
		if (event.type > UINT8_MAX || event.has >= PITOT_SBT_STACK << 1) {
			rc = error_set(&e, E_USAGE, "SBT has no events of type %u with bits %#x",
				       event.type, event.has);
			break;
		}
		put_event(&w, &event);
		if (w.out.length > SBT_FILE_BYTES_MAX)
			break; /* which sbt_finish() says */
	}
	if (rc >= 0)
		rc = sbt_finish(&w, &e);
	if (rc >= 0) {
		output_move(output, &w.out);
		rc = output_commit(&output, NULL, &e);
	}
	output_abort(&output);
	sbt_writer_release(&w);
	return read_finish(rc, &e, error);
}
