// A C++ program that records itself, with scopes that exceptions leave.
#include <pitot/pitot.hpp>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <thread>

static int half(int n)
{
	if (n % 2)
		throw std::runtime_error("odd");
	return n / 2;
}

static std::unique_ptr<int> moved(std::unique_ptr<int> p)
{
	return p;
}

static void thrower()
{
	pitot::Scope scope("left by an exception");

	PITOT_SCOPE("block") pitot::monitor("half", half, 3);
}

int main()
{
	static const pitot::Name step("step");
	const pitot::Counter items("items", "items"), loss("loss");
	int n = 0;

	if (pitot_init(nullptr) < 1)
		return 1;
	{
		pitot::Scope epoch(std::string("epoch"));
		const pitot::Token token;

		for (int i = 0; i < 3; i++) {
			pitot::Scope scope(step);
			items.add();
		}
		std::thread([token] { pitot::Scope scope(token); }).join();
		try {
			thrower();
		} catch (const std::runtime_error &) {
			pitot::mark("caught");
		}
		n = pitot::monitor("half", half, 8);
		n += *pitot::monitor("moved", moved, std::unique_ptr<int>(new int(3)));
		pitot::monitor("nothing", [] {});
		pitot::Scope runs("runs", 10, 2);
		loss.set(1.0 / 3);
	}
	pitot_shutdown();
	std::printf("%d\n", n);
	return 0;
}
