/* plugin.c: a library for stack_kinds.c to load. */
int plugin_call(int (*spin)(double));

__attribute__((noinline)) int plugin_call(int (*spin)(double))
{
	int result = spin(0.3);

	__asm__ volatile(""); /* so that the call is not made a jump */
	return result;
}
