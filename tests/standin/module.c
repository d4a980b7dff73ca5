/* module.c: an empty library, for programs that load and unload many. */
int module_number(void);

int module_number(void)
{
	return 1;
}
