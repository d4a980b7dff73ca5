/* A C program that uses the recorder's library as any other. */
#include <pitot/pitot.h>

#include <stdio.h>

int main(void)
{
	int recording = pitot_init();

	printf("%s %d\n", pitot_version(), recording);
	pitot_stop();
	return 0;
}
