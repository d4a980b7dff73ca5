// agreed_work.cpp SECONDS: optimised C++ for walk_agreement.c: exceptions, virtual calls, the standard library, threads,
// and signal handlers, on the thread's stack and on one of their own.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace
{
double cpu_seconds()
{
	return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

struct shape {
	virtual ~shape() = default;
	virtual double area() const = 0;
};
struct square : shape {
	double side;
	explicit square(double s) : side(s)
	{
	}
	double area() const override
	{
		return side * side;
	}
};
struct scaled : shape {
	std::shared_ptr<shape> inner;
	std::string name;
	scaled(std::shared_ptr<shape> s, int n)
	    : inner(std::move(s)), name(static_cast<size_t>(n), 'x')
	{
	}
	double area() const override
	{
		return 2 * inner->area() + static_cast<double>(name.size());
	}
};

double virtual_calls(int depth)
{
	std::shared_ptr<shape> s = std::make_shared<square>(3);
	for (int i = 0; i < depth; i++)
		s = std::make_shared<scaled>(s, i);
	return s->area();
}

__attribute__((noinline)) int throws(int depth)
{
	std::string text(static_cast<size_t>(depth) + 20, 'x');
	try {
		if (depth == 0)
			throw std::runtime_error("deep");
		return throws(depth - 1) + static_cast<int>(text.size());
	} catch (const std::logic_error &) {
		return 0;
	}
}

int exceptions()
{
	try {
		return throws(12);
	} catch (const std::exception &e) {
		return static_cast<int>(std::string(e.what()).size());
	}
}

size_t containers()
{
	std::map<std::string, std::vector<int>> map;
	std::unordered_map<int, std::string> other;
	for (int i = 0; i < 300; i++) {
		map[std::to_string(i % 50)].push_back(i);
		other[i] = std::string(static_cast<size_t>(i % 60), 'y');
	}
	std::vector<std::string> words;
	for (const auto &[key, value] : map)
		words.push_back(key + other[value.front()]);
	std::stable_sort(words.begin(), words.end(), [](const auto &a, const auto &b) {
		return a.size() != b.size() ? a.size() < b.size() : a < b;
	});
	return words.size();
}

size_t text()
{
	static const std::regex words("([a-z]+)-(\\d+)");
	std::ostringstream out;
	for (int i = 0; i < 40; i++)
		out << "word-" << i << ' ' << i * 0.37 << '\n';
	std::string all = out.str();
	return static_cast<size_t>(
		std::distance(std::sregex_iterator(all.begin(), all.end(), words), {}));
}

// Wants its stack aligned to 64 bytes, and has a size that is not known.
__attribute__((noinline)) float realigned(size_t n)
{
	alignas(64) volatile float numbers[64];
	float *more = static_cast<float *>(__builtin_alloca(n * 16));
	for (size_t i = 0; i < 64; i++)
		numbers[i] = static_cast<float>(i * n);
	std::iota(more, more + n, numbers[n % 64]);
	return std::accumulate(more, more + n, 0.0f);
}

volatile double kept;

void work()
{
	std::function<double(int)> f = [](int n) {
		return n % 3 ? virtual_calls(n)
			     : exceptions() + realigned(static_cast<size_t>(n) + 5);
	};
	for (int i = 0; i < 20; i++)
		kept = kept + f(i);
	kept = kept + static_cast<double>(containers() + text());
}

void handler(int)
{
	kept = kept + static_cast<double>(containers()) + exceptions();
}

void work_in_handlers()
{
	// The handler must not come where the program holds a lock of the library.
	std::raise(SIGUSR1);
	std::raise(SIGUSR2);
}

void set_handlers()
{
	static char room[1 << 18];
	stack_t stack = {};
	struct sigaction act = {};
	stack.ss_sp = room;
	stack.ss_size = sizeof(room);
	sigaltstack(&stack, nullptr);
	act.sa_handler = handler;
	sigaction(SIGUSR1, &act, nullptr);
	act.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR2, &act, nullptr);
}
} // namespace

int main(int argc, char **argv)
{
	double end = cpu_seconds() + (argc > 1 ? std::atof(argv[1]) : 1);
	set_handlers();
	while (cpu_seconds() < end) {
		auto other = std::async(std::launch::async, [] {
			for (int i = 0; i < 5; i++)
				work();
		});
		work();
		work_in_handlers();
		other.get();
	}
	std::cout << (kept > 0) << std::endl;
	return 0;
}
