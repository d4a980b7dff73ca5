/* module.c: a library for programs that load and unload many; it does nothing. */
int module_number(void);

int module_number(void)
{
	return 1;
}
