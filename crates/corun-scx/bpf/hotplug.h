/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* CPUs go off line and come back. */
#pragma once

#include "maps.h"

INLINE void set_online(u32 cpu, bool is_online)
{
	struct online *now = online_now();
	u64 bit = 1ULL << (cpu % 64);

	if (!now || cpu >= CPUS)
		return;
	if (is_online)
		__sync_fetch_and_or(&now->cpus[cpu / 64], bit);
	else
		__sync_fetch_and_and(&now->cpus[cpu / 64], ~bit);
}

SEC("struct_ops/cpu_online")
int cpu_online(u64 *ctx)
{
	set_online(ctx[0], true);
	return 0;
}

/* Who waits for CPUs that are all gone waits no longer. */
INLINE void empty_without_home(u64 queue, const struct online *now)
{
	struct set *set = set_at(queue);
	struct bpf_iter_scx_dsq waiting;
	struct task_struct *p;

	if (!set || scx_bpf_dsq_nr_queued(queue) <= 0)
		return;
#pragma unroll
	for (u32 word = 0; word < WORDS; word++) {
		if (word >= set->words)
			break;
		if (set->cpus[word] & now->cpus[word])
			return;
	}
	bpf_iter_scx_dsq_new(&waiting, queue, 0);
	while ((p = bpf_iter_scx_dsq_next(&waiting)))
		scx_bpf_dsq_move(&waiting, p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_GLOBAL), 0);
	bpf_iter_scx_dsq_destroy(&waiting);
}

/* The same of all sets. */
INLINE void empty_sets_without_home(void)
{
	struct settings *settings = settings_now();
	struct online *now = online_now();
	struct bpf_iter_num numbers;
	int *number;

	if (!settings || !now)
		return;
	bpf_iter_num_new(&numbers, 1, settings->sets);
	while ((number = bpf_iter_num_next(&numbers))) {
		bpf_rcu_read_lock();
		empty_without_home(*number, now);
		bpf_rcu_read_unlock();
	}
	bpf_iter_num_destroy(&numbers);
}

SEC("struct_ops/cpu_offline")
int cpu_offline(u64 *ctx)
{
	set_online(ctx[0], false);
	empty_sets_without_home();
	return 0;
}

/*
 * Run by user space at each look. A thread that wakes while its last CPU goes off line may have been told of the CPU before
 * and be queued for it after `cpu_offline`: nothing in the kernel's own time would find it.
 */
SEC("syscall/settle")
int settle(void *context)
{
	empty_sets_without_home();
	return 0;
}
