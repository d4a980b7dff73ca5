// A C++ program that records itself. CMakeLists.txt builds it with find_package or FetchContent; with pkg-config:
//
//	c++ main.cpp -o program $(pkg-config --cflags --libs pitot)
#include <pitot/pitot.h>

#include <iostream>

int main()
{
	const int recording = pitot_init(nullptr);

	if (recording < 0)
		std::cerr << pitot_error() << '\n';
	// … what is to be recorded …
	std::cout << pitot_version() << ' ' << recording << '\n';
	pitot_shutdown();
	return 0;
}
