/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Hands on what the kernel knows of each thread of a process, all threads in one read (an iterator over tasks).
 * It changes nothing, and takes no lock: the kernel holds the thread while the program runs.
 */
#include "bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_info {
	u32 cpu;
};

struct cpumask {
	unsigned long bits[128];
};

struct sched_entity {
	u64 sum_exec_runtime;
};

struct sched_info {
	u64 run_delay;
};

struct upid {
	s32 nr;
};

struct pid {
	struct upid numbers[1];
};

struct signal_struct {
	s32 nr_threads;
	struct pid *pids[4];
};

struct task_struct {
	struct thread_info thread_info;
	u32 __state;
	s32 static_prio;
	struct sched_entity se;
	u32 policy;
	struct cpumask cpus_mask;
	struct sched_info sched_info;
	s32 exit_state;
	s32 pid;
	s32 tgid;
	struct task_struct *real_parent;
	u64 start_boottime;
	char comm[16];
	struct signal_struct *signal;
};

#pragma clang attribute pop

/* Arguments of the iterator's program, as the kernel lays them out. */
struct seq_file;
struct iterator {
	struct meta *meta;
	struct task_struct *task;
};
struct meta {
	struct seq_file *file;
};

/* `enum pid_type`; its values are as old as process groups and sessions. */
#define GROUP 2
#define SESSION 3

/* src/threads.rs reads these. The affinity follows in as many words as the program has. */
struct thread {
	u32 tid;
	u32 pid;
	u32 parent;
	u32 group;
	u32 session;
	u32 threads;
	u32 state;
	u32 exit_state;
	u32 cpu;
	s32 static_priority;
	u32 policy;
	u32 unused;
	u64 start_ns;
	u64 ran_ns;
	u64 waited_ns;
	char name[16];
};

static long (*const write_to)(struct seq_file *file, const void *data, u32 bytes) = (void *)127;
static long (*const read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;

INLINE u32 number_of(struct signal_struct *signal, u32 kind)
{
	struct pid *pid = signal->pids[kind];
	u32 number = 0;

	read_kernel(&number, sizeof(number), &pid->numbers[0].nr);
	return number;
}

INLINE void fill(struct thread *thread, struct task_struct *task)
{
	struct signal_struct *signal = task->signal;

	thread->tid = task->pid;
	thread->pid = task->tgid;
	thread->parent = task->real_parent->tgid;
	thread->group = 0;
	thread->session = 0;
	if (task->pid == task->tgid) {
		thread->group = number_of(signal, GROUP);
		thread->session = number_of(signal, SESSION);
	}
	thread->threads = signal->nr_threads;
	thread->state = task->__state;
	thread->exit_state = task->exit_state;
	thread->cpu = task->thread_info.cpu;
	thread->static_priority = task->static_prio;
	thread->policy = task->policy;
	thread->unused = 0;
	thread->start_ns = task->start_boottime;
	thread->ran_ns = task->se.sum_exec_runtime;
	thread->waited_ns = task->sched_info.run_delay;
	read_kernel(thread->name, sizeof(thread->name), task->comm);
}

#define HANDS_ON(name, words)                                                  \
	SEC("iter/" #name) int name(struct iterator *context)                  \
	{                                                                      \
		struct task_struct *task = context->task;                      \
		struct {                                                       \
			struct thread thread;                                  \
			u64 allowed[words];                                    \
		} out;                                                         \
                                                                               \
		if (!task)                                                     \
			return 0;                                              \
		fill(&out.thread, task);                                       \
		read_kernel(out.allowed, sizeof(out.allowed),                  \
			    &task->cpus_mask);                                 \
		write_to(context->meta->file, &out, sizeof(out));              \
		return 0;                                                      \
	}

/* Of machines with up to 128 CPUs, and with up to 1024. */
HANDS_ON(few_cpus, 2)
HANDS_ON(many_cpus, 16)
