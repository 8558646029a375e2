/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Threads run elsewhere that waited too long for their CPUs, or of whose CPUs none is there for them. */
#pragma once

#include "sets.h"
#include "wait.h"

/*
 * No thread waits for longer, whatever its bound: the last resort where a CPU serves nobody. The kernel detaches the scheduler
 * when a thread waited for 30 s, and when one was kept within a read section of the kernel for 21 s.
 */
#define LONGEST_NS (10ULL * 1000 * 1000 * 1000)
#define SCANNED 16 /* threads of a queue that are looked at for one that waited too long */

INLINE bool waited_too_long(const struct thread *thread, u64 now)
{
	u64 bound = thread->spill_after_ns;

	if (bound > LONGEST_NS)
		bound = LONGEST_NS;
	return !is_before(now, thread->waits_since_ns + bound);
}

/* Takes the first thread of other sets that waited too long or has no home there, and may run here. */
INLINE void take_spill(s32 cpu)
{
	struct settings *settings = settings_now();
	struct online *online = online_now();
	struct bpf_iter_scx_dsq waiting;
	struct bpf_iter_num numbers;
	struct task_struct *p;
	struct thread *thread;
	struct set *set;
	u64 now = scx_bpf_now();
	bool is_taken = false, is_late;
	int *number, left;

	if (!settings || !online)
		return;
	bpf_iter_num_new(&numbers, 1, settings->sets);
	while (!is_taken && (number = bpf_iter_num_next(&numbers))) {
		u64 queue = *number;

		set = set_at(queue);
		if (!set || scx_bpf_dsq_nr_queued(queue) <= 0)
			continue;
		left = SCANNED;
		bpf_iter_scx_dsq_new(&waiting, queue, 0);
		while (left-- > 0 && (p = bpf_iter_scx_dsq_next(&waiting))) {
			thread = thread_of(p);
			if (!thread || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
				continue;
			is_late = waited_too_long(thread, now);
			if (!is_late && has_home(p, set, online))
				continue;
			if (scx_bpf_dsq_move(&waiting, p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_LOCAL_ON) | cpu,
					     0)) {
				thread->spilled += is_late;
				is_taken = true;
				break;
			}
		}
		bpf_iter_scx_dsq_destroy(&waiting);
	}
	bpf_iter_num_destroy(&numbers);
}

/* Wakes an idle CPU elsewhere for a thread of this queue that waited too long. */
INLINE void help(u32 queue, const struct online *online, u64 now)
{
	struct task_struct *head = scx_bpf_dsq_peek(queue);
	struct thread *thread;
	s32 cpu;

	if (!head)
		return;
	thread = thread_of(head);
	if (!thread || !waited_too_long(thread, now))
		return;
	cpu = pick_idle(head, online);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, OF_KERNEL(scx_kick_flags, SCX_KICK_IDLE));
}

/*
 * Is the first thread of this queue without a home? Then an idle CPU is woken for it. True: none is idle, and the thread
 * may run here.
 */
INLINE bool help_homeless(u32 queue, s32 here, const struct online *online)
{
	struct task_struct *head = scx_bpf_dsq_peek(queue);
	struct set *set = set_at(queue);
	s32 cpu;

	if (!head || !set || has_home(head, set, online))
		return false;
	cpu = pick_idle(head, online);
	if (cpu >= 0) {
		scx_bpf_kick_cpu(cpu, OF_KERNEL(scx_kick_flags, SCX_KICK_IDLE));
		return false;
	}
	return bpf_cpumask_test_cpu(here, head->cpus_ptr);
}
