/*
 * big_stacks.c: a stack's number in base 8 is its path: each digit selects a Python function with
 * its line, and a native function that it calls. Stacks share the frames of their common leading
 * digits.
 */
#include "support/big_stacks.h"

#include <stdio.h>

#define BASE 8
#define APP UINT64_C(0x400000)
#define TORCH UINT64_C(0x7f1000000000)
#define UNKNOWN UINT64_C(0x7f3000000000)
#define CUDART UINT64_C(0x7f4000000000)

static const char *const python_names[BIG_STACKS_LEVELS] = {
	"train",          "Trainer.step", "Model.forward", "Block.forward", "Attention.forward",
	"Linear.forward", "helper",       "leaf",
};
static const char *const python_files[BIG_STACKS_LEVELS] = {
	"/home/user/train.py",  "/home/user/trainer.py",   "/home/user/model.py",
	"/home/user/model.py",  "/home/user/attention.py", "/opt/torch/nn/modules/linear.py",
	"/home/user/helper.py", "/home/user/leaf.py",
};
static const char *const native_names[BASE] = {
	"at::native::add_out(at::Tensor const&, at::Tensor const&)",
	"at::native::addmm_out_cuda_impl(at::Tensor&, at::Tensor const&, c10::Scalar const&)",
	"at::_ops::copy_::call(at::Tensor&, at::Tensor const&, bool)",
	("void at::native::gpu_kernel_impl<"
	 "at::native::CUDAFunctor_add<float>>(at::TensorIteratorBase&)"),
	"torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)",
	"at::native::softmax_cuda(at::Tensor const&, long, bool)",
	"c10::Dispatcher::callBoxed(c10::OperatorHandle const&, std::vector<c10::IValue>*) const",
	"at::native::layer_norm_cuda(at::Tensor const&, c10::ArrayRef<long>)",
};

static uint64_t native_address(unsigned level, unsigned digit)
{
	return TORCH + 0x100000 * (level + 1) + 0x400 * digit + 0x2c;
}

void big_stacks_init(struct big_stacks *s, struct maker *m, uint32_t count)
{
	size_t paths = BASE;

	*s = (struct big_stacks){ .m = m, .count = count, .levels = 1 };
	while (paths < count) {
		paths *= BASE;
		s->levels++;
	}
	paths = 1;
	for (unsigned level = 0; level < s->levels; level++)
		s->nodes[level] = calloc(paths *= BASE, sizeof(uint32_t));
	s->ids = calloc(count, sizeof(uint32_t));
	maker_module(m, "/usr/bin/python3.12", "00112233445566778899aabbccddeeff00112233", APP,
		     APP + 0x100000, 0);
	maker_module(m, "/opt/torch/lib/libtorch_cpu.so",
		     "aa112233445566778899aabbccddeeff00112233", TORCH, TORCH + 0x10000000, TORCH);
	maker_module(m, "/opt/vendor/libstripped.so", NULL, UNKNOWN, UNKNOWN + 0x100000, UNKNOWN);
	maker_module(m, "/usr/local/cuda/lib64/libcudart.so.12", NULL, CUDART, CUDART + 0x100000,
		     CUDART);
	maker_symbol(m, APP + 0x25, 0, "_start", "/usr/bin/python3.12", NULL, 0, 0x400000);
	maker_symbol(m, APP + 0x400, 0, "main", "/usr/bin/python3.12", "/build/Programs/python.c",
		     15, 0x4003f0);
	for (unsigned level = 0; level < s->levels; level++)
		for (unsigned digit = 0; digit < BASE; digit++) {
			uint64_t address = native_address(level, digit);

			maker_symbol(m, address, 0, native_names[digit],
				     "/opt/torch/lib/libtorch_cpu.so", "/build/aten/ops.cpp",
				     100 * level + digit, address - TORCH - 0x2c);
			if (digit == 3) /* a function is inlined there */
				maker_symbol(m, address, 1, "at::TensorIteratorBase::numel() const",
					     "/opt/torch/lib/libtorch_cpu.so",
					     "/build/aten/TensorIterator.h", 77, 0);
		}
	maker_symbol(m, CUDART + 0x1000, 0, "cudaLaunchKernel",
		     "/usr/local/cuda/lib64/libcudart.so.12", NULL, 0, 0xff0);
}

void big_stacks_release(struct big_stacks *s)
{
	for (unsigned level = 0; level < BIG_STACKS_LEVELS; level++)
		free(s->nodes[level]);
	free(s->ids);
}

/* Walks down the tree by the digits of a number, highest first. */
static uint32_t make(struct big_stacks *s, uint32_t number)
{
	uint32_t node = 0, path = 0;

	for (unsigned level = 0; level < s->levels; level++) {
		unsigned digit = number >> 3 * (s->levels - 1 - level) & (BASE - 1);
		uint32_t *known;

		path = path * BASE + digit;
		known = &s->nodes[level][path];
		if (!*known) {
			if (!level) {
				node = maker_native(s->m, 0, APP + 0x25);
				node = maker_native(s->m, node, APP + 0x400);
			}
			node = maker_python(s->m, node, python_names[level], python_files[level],
					    10 * (digit + 1));
			*known = maker_native(s->m, node,
					      digit == 6 ? UNKNOWN + 0x500 + 16 * level
							 : native_address(level, digit));
		}
		node = *known;
	}
	return maker_stack(s->m, maker_native(s->m, node, CUDART + 0x1000), 3 + 2 * s->levels,
			   stack_end_complete);
}

uint32_t big_stacks_next(struct big_stacks *s, uint64_t random)
{
	uint32_t number = s->made;

	/* the product of two numbers in [0, 1) is mostly small */
	if (number == s->count)
		return s->ids[(random >> 32) * (random & UINT32_MAX) / UINT32_MAX * s->count >> 32];
	s->ids[number] = make(s, number);
	s->made++;
	return s->ids[number];
}
