/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A thread begins to wait: since when, woken by whom, and where in the queue of its set. */
#pragma once

#include "maps.h"

#define SLICE_NS (5ULL * 1000 * 1000)
#define NORMAL_WEIGHT 100 /* of nice 0 */

INLINE bool is_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/*
 * The virtual time by which a thread is queued. It is charged here for all that it ran since it was last queued: an
 * operation at each end of its running would cost more. Who slept keeps a slice of what it is behind, who comes from
 * another set is at most one ahead.
 */
INLINE u64 charged(struct task_struct *p, struct thread *thread, const struct set *set)
{
	u64 in_all = p->se.sum_exec_runtime, ran = in_all - thread->charged_ns;
	u64 weight = p->scx.weight, newest = set->vtime, vtime;

	if (weight != NORMAL_WEIGHT)
		ran = ran * NORMAL_WEIGHT / (weight ? weight : 1);
	vtime = thread->vtime + ran;
	if (is_before(vtime, newest - SLICE_NS))
		vtime = newest - SLICE_NS;
	if (is_before(newest + SLICE_NS, vtime))
		vtime = newest + SLICE_NS;
	thread->charged_ns = in_all;
	thread->vtime = vtime;
	return vtime;
}

INLINE void queue(struct task_struct *p, struct thread *thread, const struct set *set, u64 flags)
{
	struct scx_bpf_dsq_insert_vtime_args args = {
		.dsq_id = thread->set,
		.slice = SLICE_NS,
		.vtime = charged(p, thread, set),
		.enq_flags = flags,
	};

	thread->waited++;
	__scx_bpf_dsq_insert_vtime(p, &args);
}

/* Wake-ups by one thread are added up for so long, and so many: the map costs more than all else. */
#define TELL_AFTER_NS (50ULL * 1000 * 1000)
#define TELL_AFTER 16

INLINE void tell_waker(struct task_struct *wakee, struct thread *thread)
{
	struct pair pair = { .waker = thread->waker, .wakee = wakee->pid };
	u64 woken = thread->woken, *count;

	thread->woken = 0;
	if (!woken)
		return;
	count = bpf_map_lookup_elem(&wakers, &pair);
	if (count)
		__sync_fetch_and_add(count, woken);
	else
		bpf_map_update_elem(&wakers, &pair, &woken, BPF_NOEXIST);
}

INLINE void count_waker(struct task_struct *wakee, struct thread *thread, u64 now)
{
	s32 waker = bpf_get_current_task_btf()->pid;

	if (waker == 0)
		return;
	if (waker != thread->waker) {
		tell_waker(wakee, thread);
		thread->waker = waker;
	}
	thread->woken++;
	if (thread->woken < TELL_AFTER && now - thread->told_ns < TELL_AFTER_NS)
		return;
	thread->told_ns = now;
	tell_waker(wakee, thread);
}

/* It can run from now on. */
INLINE void begin_wait(struct task_struct *p, struct thread *thread, bool is_woken, bool counts_wakers)
{
	u64 now = scx_bpf_now();

	thread->waits_since_ns = now;
	if (is_woken) {
		thread->wakeups++;
		if (counts_wakers)
			count_waker(p, thread, now);
	}
}
