#include "perfetto/ipc_frames.h"

#include "base/proto.h"
#include "support/cmocka_tests.h"

static struct strbuf bytes;

static int setup(void **state)
{
	(void)state;
	bytes = (struct strbuf)STRBUF_INIT;
	return raw_init(&bytes) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	strbuf_release(&bytes);
	return 0;
}

static void add_method(uint64_t id, const char *name)
{
	size_t method = proto_open(&bytes, 3);

	proto_uint(&bytes, 1, id);
	proto_string(&bytes, 2, name);
	proto_close(&bytes, method);
}

#define ADD(name_, text) add_method(50 - IPC_##name_, text);

static bool read_methods(struct ipc_methods *methods)
{
	return ipc_methods_read(methods, cursor_of(bytes.data, bytes.length));
}

static void test_methods_by_name(void **state)
{
	struct ipc_methods methods;

	(void)state;
	proto_uint(&bytes, 1, 1);
	proto_uint(&bytes, 2, 9);
	add_method(99, "Sync");
	IPC_METHODS(ADD)
	add_method(98, "CommitDat");
	assert_true(read_methods(&methods));
	assert_int_equal(methods.service, 9);
	for (int i = 0; i < IPC_METHOD_COUNT; i++)
		assert_int_equal(methods.ids[i], 50 - i);
	bytes.data[1] = 0; /* success */
	assert_false(read_methods(&methods));
}

static void test_method_is_missing(void **state)
{
	struct ipc_methods methods;

	(void)state;
	proto_uint(&bytes, 1, 1);
	IPC_METHODS(ADD)
	bytes.length--;
	assert_false(read_methods(&methods));
	strbuf_clear(&bytes);
	proto_uint(&bytes, 1, 1);
	add_method(1, "InitializeConnection");
	assert_false(read_methods(&methods));
}

static void test_frames(void **state)
{
	struct ipc_frame frame;
	size_t reply;

	(void)state;
	proto_uint(&bytes, 2, 12345);
	reply = proto_open(&bytes, 6);
	proto_uint(&bytes, 1, 1);
	proto_uint(&bytes, 2, 1);
	proto_string(&bytes, 3, "command");
	proto_close(&bytes, reply);
	assert_true(ipc_frame_read(&frame, bytes.data, bytes.length));
	assert_int_equal(frame.kind, IPC_INVOKE_REPLY);
	assert_int_equal(frame.request, 12345);
	assert_true(frame.success && frame.has_more);
	assert_int_equal(cursor_left(&frame.reply), 7);
	assert_memory_equal(frame.reply.p, "command", 7);
	assert_false(ipc_frame_read(&frame, bytes.data, bytes.length - 1));
	assert_true(ipc_frame_read(&frame, NULL, 0));
	assert_int_equal(frame.kind, IPC_OTHER);
	assert_true(ipc_frame_read(&frame, "\x3a\x00", 2));
	assert_int_equal(frame.kind, IPC_REQUEST_ERROR);
	assert_false(ipc_frame_read(&frame, "\x03", 1)); /* a group */
	assert_false(ipc_frame_read(&frame, "\x00\x00", 2)); /* field 0 */
}

static struct ipc_command read_command(uint32_t field, const char *message, size_t length)
{
	struct ipc_command command;

	strbuf_clear(&bytes);
	proto_bytes(&bytes, field, message, length);
	assert_true(ipc_command_read(&command, cursor_of(bytes.data, bytes.length)));
	return command;
}

static void test_commands(void **state)
{
	static const enum ipc_command_kind kinds[] = {
		IPC_NO_COMMAND, IPC_START,      IPC_STOP,  IPC_SETUP_TRACING, IPC_NO_COMMAND,
		IPC_FLUSH,      IPC_NO_COMMAND, IPC_CLEAR, IPC_NO_COMMAND,
	};
	struct ipc_command command;

	(void)state;
	for (uint32_t i = 1; i < ARRAY_SIZE(kinds); i++)
		assert_int_equal(read_command(i, "", 0).kind, kinds[i]);
	command = read_command(1, "\x08\xac\x02\x12\x02\x10\x05", 7);
	assert_int_equal(command.instance, 300);
	assert_int_equal(cursor_left(&command.config), 2);
	assert_int_equal(read_command(2, "\x08\x07", 2).instance, 7);
	assert_false(ipc_command_read(&command, cursor_of("\x0a\x02\x08", 3)));
	assert_false(ipc_command_read(&command, cursor_of("\x0a\x01\x08", 3)));
}

static void expect_instances(const char *message, size_t length, unsigned count)
{
	struct ipc_command command = read_command(5, message, length);
	uint64_t id = 0;

	assert_int_equal(command.flush, 4);
	for (unsigned i = 1; i <= count; i++) {
		assert_true(ipc_command_next(&command, &id));
		assert_int_equal(id, i);
	}
	assert_false(ipc_command_next(&command, &id));
}

static void test_instances_of_a_flush(void **state)
{
	(void)state;
	expect_instances("\x10\x04", 2, 0);
	expect_instances("\x08\x01\x10\x04\x08\x02\x18\x01\x08\x03", 10, 3);
	expect_instances("\x0a\x03\x01\x02\x03\x10\x04", 7, 3); /* packed */
	expect_instances("\x08\x01\x0a\x00\x0a\x01\x02\x10\x04\x08\x03", 11, 3);
	expect_instances("\x10\x04\x0a\x02\x01\x80", 6, 1); /* the second is cut */
}

static void test_a_call(void **state)
{
	static const uint8_t expected[] = {
		22,   0, 0,    0, 0x10, 0xac, 0x02, 0x2a, 17,  0x08, 2,    0x10, 7,
		0x20, 1, 0x1a, 9, 0x1a, 4,    'd',  'a',  't', 'a',  0x18, 0xac, 2,
	};
	struct ipc_methods methods = { .service = 2 };
	struct ipc_call call;

	(void)state;
	methods.ids[IPC_COMMIT] = 7;
	for (size_t i = 0; i < 2; i++) {
		call = ipc_call_open(&bytes, &methods, 300, IPC_COMMIT, false);
		proto_bytes(&bytes, 3, "data", 4);
		proto_uint(&bytes, 3, 300);
		ipc_call_close(&bytes, &call);
		assert_int_equal(bytes.length, (i + 1) * sizeof(expected));
		assert_memory_equal(bytes.data + i * sizeof(expected), expected, sizeof(expected));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_methods_by_name, setup, teardown),
		cmocka_unit_test_setup_teardown(test_method_is_missing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_frames, setup, teardown),
		cmocka_unit_test_setup_teardown(test_commands, setup, teardown),
		cmocka_unit_test_setup_teardown(test_instances_of_a_flush, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_call, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
