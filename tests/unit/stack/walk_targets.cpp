// walk_targets.cpp: code of all kinds that calls back, for test_unwind_self.c: optimised C++ without frame pointers.
#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#define KEEP __attribute__((visibility("default"), noinline))

typedef void callback(void);

namespace
{
struct at_end {
	callback *call;
	std::string text;
	~at_end()
	{
		call();
	}
};

struct shape {
	virtual ~shape() = default;
	virtual double area(callback *call) const = 0;
};

struct square : shape {
	double side;
	explicit square(double s) : side(s) {}
	double area(callback *call) const override
	{
		call();
		return side * side;
	}
};

// Wants its stack aligned to 64 bytes: the compiler realigns, and the CFA is found through rbp.
__attribute__((noinline)) float realigned(callback *call, int n)
{
	alignas(64) volatile float numbers[64];
	float *more = static_cast<float *>(__builtin_alloca(static_cast<size_t>(n) * 16));
	for (int i = 0; i < 64; i++)
		numbers[i] = static_cast<float>(i * n);
	more[0] = numbers[n % 64];
	call();
	return numbers[(n + 1) % 64] + more[0];
}

__attribute__((noinline)) int throws(callback *call, int depth)
{
	at_end guard{ call, std::string(static_cast<size_t>(depth) * 20, 'x') };
	if (depth == 0)
		throw std::runtime_error("deep");
	return throws(call, depth - 1) + static_cast<int>(guard.text.size());
}
}

extern "C" {
KEEP int target_exceptions(callback *call)
{
	try {
		return throws(call, 5);
	} catch (const std::exception &e) {
		call();
		return static_cast<int>(std::string(e.what()).size());
	}
}

KEEP int target_sort(callback *call)
{
	std::vector<int> numbers(100);
	int calls = 0;
	for (size_t i = 0; i < numbers.size(); i++)
		numbers[i] = static_cast<int>((i * 37) % 101);
	std::sort(numbers.begin(), numbers.end(), [&](int a, int b) {
		if (++calls % 50 == 0)
			call();
		return a < b;
	});
	return numbers[50];
}

KEEP double target_virtual(callback *call)
{
	std::unique_ptr<shape> s = std::make_unique<square>(3.0);
	std::function<double(int)> f = [&](int n) { return n ? s->area(call) * n : 0.0; };
	return f(2) + realigned(call, 7) + realigned(call, 100);
}

KEEP int target_recurse(callback *call, int depth)
{
	volatile char room[32];
	room[depth % 32] = static_cast<char>(depth);
	if (depth == 0)
		call();
	else
		target_recurse(call, depth - 1);
	return room[depth % 32];
}
}
