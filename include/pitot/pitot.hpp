/*
 * pitot.hpp: pitot.h as RAII objects, for C++11 and later. Header-only.
 *
 *	pitot::Scope scope("forward");
 *	int rows = pitot::monitor("load", read_rows, file);
 */
#ifndef PITOT_PITOT_HPP
#define PITOT_PITOT_HPP

#include <cstdint>
#include <string>
#include <utility>

#include "pitot.h"

namespace pitot
{

/* A name that is looked up only once, for loops: static const pitot::Name step("step"); */
class Name
{
public:
	explicit Name(const char *text) noexcept : number_(pitot_name(text)) {}
	std::uint32_t number() const noexcept { return number_; }

private:
	std::uint32_t number_;
};

/* Identifies the innermost scope of the constructing thread, so that another thread can continue it. */
class Token
{
public:
	Token() noexcept : value_(pitot_scope_token()) {}
	std::uint64_t value() const noexcept { return value_; }

private:
	std::uint64_t value_;
};

/* A scope of this thread, from construction to destruction. */
class Scope
{
public:
	explicit Scope(const char *name) noexcept { pitot_scope_begin(name); }
	explicit Scope(const std::string &name) noexcept { pitot_scope_begin(name.c_str()); }
	explicit Scope(Name name) noexcept { pitot_scope_begin_name(name.number()); }
	explicit Scope(Token token) noexcept { pitot_scope_carry(token.value()); }
	/* Runs the same code `warmup` times, which do not count, and then `repeat` times. */
	Scope(const char *name, std::uint32_t repeat, std::uint32_t warmup = 0) noexcept
	{
		pitot_scope_begin_runs(name, repeat, warmup);
	}
	~Scope() { pitot_scope_end(); }
	Scope(const Scope &) = delete;
	Scope &operator=(const Scope &) = delete;
};

/* Makes a call inside a scope, and returns its result. */
template <typename Call, typename... Arguments>
auto monitor(const char *name, Call &&call, Arguments &&...arguments)
	-> decltype(std::forward<Call>(call)(std::forward<Arguments>(arguments)...))
{
	Scope scope(name);

	return std::forward<Call>(call)(std::forward<Arguments>(arguments)...);
}

inline void mark(const char *text) noexcept
{
	pitot_mark(text);
}

/* A sum that threads add to, or a value that is set. Equal names are the same counter. */
class Counter
{
public:
	explicit Counter(const char *name, const char *unit = "", const char *description = "") noexcept
		: number_(pitot_counter(name, unit, description))
	{
	}
	void add(std::int64_t by = 1) const noexcept { pitot_counter_add(number_, by); }
	void set(double value) const noexcept { pitot_gauge(number_, value); }

private:
	std::uint32_t number_;
};

/* An engine in a running recording (default: that of pitot_init), until destruction or for duration_ns. */
class Engine
{
public:
	explicit Engine(pitot_engine engine, std::uint64_t duration_ns = 0, pitot_session *session = nullptr) noexcept
		: session_(session), result_(pitot_engine_begin(session, engine, 0, duration_ns))
	{
	}
	~Engine()
	{
		if (armed())
			pitot_engine_end(session_);
	}
	Engine(const Engine &) = delete;
	Engine &operator=(const Engine &) = delete;
	/* If false, pitot_error() says why. */
	bool armed() const noexcept { return result_ >= 0; }

private:
	pitot_session *session_;
	int result_;
};

} // namespace pitot

#endif
