/* record_operators.h: makes a scope of each operator of PyTorch while anybody wants it. */
#ifndef PITOT_PYTHON_RECORD_OPERATORS_H
#define PITOT_PYTHON_RECORD_OPERATORS_H

/* The recorder's functions: pitot_scope_begin and pitot_scope_end. */
struct operator_scopes {
	void (*begin)(const char *name);
	void (*end)(void);
};

/*
 * Makes scopes of all operators in this process until operators_end() was called as often. `path`
 * is a loaded library that is linked with PyTorch. Returns NULL, or why it is impossible; then
 * operators_end() must not be called.
 */
const char *operators_begin(const struct operator_scopes *scopes, const char *path);
void operators_end(void);

#endif
