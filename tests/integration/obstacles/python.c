/*
 * A stand-in for an interpreter that is not supported: it has the symbols by which a Python is
 * recognized, and needs CPU time. VERSION: "3.6.9"; HEX: PY_VERSION_HEX. Without VERSION it is no
 * CPython, and only its name tells what it is.
 */
#include <time.h>

void run(void);

#ifdef VERSION
char PyCode_Type[512], PyUnicode_Type[512], PyBytes_Type[512];
void Py_Initialize(void)
{
}
void *PyGILState_GetThisThreadState(void)
{
	return 0;
}
int _Py_IsFinalizing(void)
{
	return 0;
}
const char *Py_GetVersion(void)
{
	return VERSION " (a stand-in)";
}
#if HEX >= 0x030700f0
char _PyRuntime[4096] = "none";
#endif
#if HEX >= 0x030800f0
void PyConfig_InitPythonConfig(void)
{
}
#endif
#if HEX >= 0x030900f0
void PyFrame_GetBack(void)
{
}
void Py_NewRef(void)
{
}
#endif
#if HEX >= 0x030b0000
const unsigned long Py_Version = HEX;
#endif
#ifdef DEBUG
void _Py_NegativeRefcount(void)
{
}
#endif
#define WORK _PyEval_EvalFrameDefault
#else
#define WORK work
#endif

__attribute__((noinline)) void WORK(void)
{
	struct timespec now;
	volatile long x = 0;

	do {
		for (int i = 0; i < 100000; i++)
			x += i;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	} while (now.tv_sec == 0 && now.tv_nsec < 150000000);
}

void run(void)
{
	WORK();
}
