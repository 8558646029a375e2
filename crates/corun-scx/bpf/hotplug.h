/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* CPUs go off line and come back. */
#pragma once

#include "sets.h"

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

/*
 * A CPU goes off line: an idle CPU is woken for each thread of this queue whose last CPU it was, and looks for such threads.
 * `moves`: the thread is put there at once. Where no CPU is idle, a thread that belongs to the run queue of the CPU that goes
 * is then put where that CPU itself finds it and hands it on: a CPU does not go before. All others stay, and are found there
 * (`take_spill`, `help_homeless`).
 */
INLINE void serve_homeless(u64 queue, u32 gone, const struct online *now, bool moves)
{
	struct set *set = set_at(queue);
	struct bpf_iter_scx_dsq waiting;
	struct task_struct *p;
	s32 cpu;

	if (!set || !has_cpu(set, gone) || scx_bpf_dsq_nr_queued(queue) <= 0)
		return;
	bpf_iter_scx_dsq_new(&waiting, queue, 0);
	while ((p = bpf_iter_scx_dsq_next(&waiting))) {
		if (has_home(p, set, now))
			continue;
		cpu = pick_idle(p, now);
		if (cpu >= 0) {
			if (moves)
				scx_bpf_dsq_move(&waiting, p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_LOCAL_ON) | cpu, 0);
			/* Also where somebody else took the thread: the CPU no longer counts as idle. */
			scx_bpf_kick_cpu(cpu, OF_KERNEL(scx_kick_flags, SCX_KICK_IDLE));
		} else if (!moves) {
			break;
		} else if ((u32)scx_bpf_task_cpu(p) == gone) {
			scx_bpf_dsq_move(&waiting, p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_GLOBAL), 0);
		}
	}
	bpf_iter_scx_dsq_destroy(&waiting);
}

/*
 * A step of a CPU's going or coming begins. A CPU that goes dispatches nothing from the step on at which the kernel takes it
 * for inactive, and then waits for all who are within the kernel's read sections, before it tells the scheduler
 * (`cpu_offline`). A thread that was preempted there and waits for that CPU would keep it for ever: for the scheduler the CPU
 * is gone before that step, and idle CPUs are woken for who waits.
 */
SEC("trace/cpuhp_enter")
int cpuhp_enter(u64 *ctx)
{
	u32 gone = ctx[0];
	s32 target = ctx[1], step = ctx[2], inactive = OF_KERNEL(cpuhp_state, CPUHP_AP_ACTIVE);
	struct settings *settings = settings_now();
	struct online *now = online_now();
	struct bpf_iter_num numbers;
	int *number;

	if (step != inactive || target >= step || !settings || !now)
		return 0;
	set_online(gone, false);
	bpf_iter_num_new(&numbers, 1, settings->sets);
	while ((number = bpf_iter_num_next(&numbers)))
		serve_homeless(*number, gone, now, false);
	bpf_iter_num_destroy(&numbers);
	return 0;
}

/* The step ended: the kernel may have refused to let the CPU go. */
SEC("trace/cpuhp_exit")
int cpuhp_exit(u64 *ctx)
{
	s32 step = ctx[2], error = ctx[3];

	if (error && step == (s32)OF_KERNEL(cpuhp_state, CPUHP_AP_ACTIVE))
		set_online(ctx[0], true);
	return 0;
}

SEC("struct_ops/cpu_offline")
int cpu_offline(u64 *ctx)
{
	u32 gone = ctx[0];
	struct settings *settings = settings_now();
	struct online *now = online_now();
	struct bpf_iter_num numbers;
	int *number;

	set_online(gone, false);
	if (!settings || !now)
		return 0;
	bpf_iter_num_new(&numbers, 1, settings->sets);
	while ((number = bpf_iter_num_next(&numbers))) {
		bpf_rcu_read_lock();
		serve_homeless(*number, gone, now, true);
		bpf_rcu_read_unlock();
	}
	bpf_iter_num_destroy(&numbers);
	return 0;
}
