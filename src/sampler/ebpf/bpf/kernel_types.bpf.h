/*
 * kernel_types.bpf.h: the members of the operating system kernel's structures that the programs
 * read. The loader relocates their offsets by the kernel's BTF (CO-RE).
 */
#ifndef PITOT_SAMPLER_EBPF_BPF_KERNEL_TYPES_BPF_H
#define PITOT_SAMPLER_EBPF_BPF_KERNEL_TYPES_BPF_H

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "arch/registers.h"

#define KERNEL_TYPE __attribute__((preserve_access_index))

struct upid {
	int nr;
} KERNEL_TYPE;

struct pid {
	unsigned int level;
	struct upid numbers[1];
} KERNEL_TYPE;

typedef struct {
	int counter;
} KERNEL_TYPE atomic_t;

struct signal_struct {
	atomic_t live;
} KERNEL_TYPE;

struct thread_struct {
	KERNEL_THREAD_MEMBER;
} KERNEL_TYPE;

struct mm_struct {
	unsigned long start_stack;
} KERNEL_TYPE;

struct sched_entity {
	unsigned long long sum_exec_runtime;
} KERNEL_TYPE;

struct task_struct {
	struct thread_struct thread;
	struct sched_entity se;
	struct mm_struct *mm;
	unsigned int __state;
	int pid, tgid;
	unsigned long long start_time;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct signal_struct *signal;
} KERNEL_TYPE;

#define TASK_INTERRUPTIBLE 0x1
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_STOPPED_OR_TRACED 0xc
#define TASK_DEAD 0x80

#endif
