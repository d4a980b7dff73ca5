// A C++ program that records itself. CMakeLists.txt builds it with find_package or FetchContent; with pkg-config:
//
//	c++ main.cpp -o program $(pkg-config --cflags --libs pitot)
#include <pitot/pitot.h>

#include <iostream>

int main()
{
	const int recording = pitot_init(nullptr);
	const uint32_t steps = pitot_counter("steps", nullptr, nullptr);

	if (recording < 0)
		std::cerr << pitot_error() << '\n';
	for (int step = 0; step < 3; step++) {
		PITOT_SCOPE("step") {
			pitot_counter_add(steps, 1);
			// … kernels launched here belong to the scope …
		}
	}
	std::cout << pitot_version() << ' ' << recording << '\n';
	pitot_shutdown();
	return 0;
}
