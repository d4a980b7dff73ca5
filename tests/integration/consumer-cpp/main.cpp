// A C++ program that uses the recorder's library as any other.
#include <pitot/pitot.h>

#include <iostream>
#include <string>

int main()
{
	const int recording = pitot_init();

	std::cout << std::string(pitot_version()) << ' ' << recording << '\n';
	pitot_stop();
	return 0;
}
