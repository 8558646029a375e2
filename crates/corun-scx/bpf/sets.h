/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Which CPU of a set is idle, and is there one for a thread at all? */
#pragma once

#include "maps.h"

INLINE bool has_cpu(const struct set *set, u32 cpu)
{
	return cpu < CPUS && (set->cpus[cpu / 64] & (1ULL << (cpu % 64)));
}

INLINE u32 lowest_bit(u64 bits)
{
	u32 at = 0;

	if (!(bits & 0xffffffff)) {
		at += 32;
		bits >>= 32;
	}
	if (!(bits & 0xffff)) {
		at += 16;
		bits >>= 16;
	}
	if (!(bits & 0xff)) {
		at += 8;
		bits >>= 8;
	}
	if (!(bits & 0xf)) {
		at += 4;
		bits >>= 4;
	}
	if (!(bits & 3)) {
		at += 2;
		bits >>= 2;
	}
	return at + !(bits & 1);
}

/* An idle CPU of the set, of those in the mask; it is no longer idle for others. -1: none. */
INLINE s32 take_idle(struct task_struct *p, const struct set *set, const struct cpumask *idle)
{
	const struct cpumask *allowed = p->cpus_ptr;
	u64 found = 0;
	u32 first = 0;

	/* The verifier wants constant offsets into a mask of the kernel. */
#pragma unroll
	for (u32 word = 0; word < WORDS; word++) {
		if (word >= set->words)
			break;
		found = set->cpus[word] & idle->bits[word] & allowed->bits[word];
		first = word * 64;
		if (found)
			break;
	}
	/* Somebody else may have taken a CPU meanwhile. */
	for (u32 tries = 0; tries < 4 && found; tries++) {
		u32 cpu = first + lowest_bit(found);

		if (scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
		found &= found - 1;
	}
	return -1;
}

/* Is any CPU of the set in the mask? */
INLINE bool has_any(const struct set *set, const struct cpumask *mask)
{
#pragma unroll
	for (u32 word = 0; word < WORDS; word++) {
		if (word >= set->words)
			break;
		if (set->cpus[word] & mask->bits[word])
			return true;
	}
	return false;
}

/* An idle CPU of a thread's set: where it ran last, else one whose core is idle, else any. -1: none. */
INLINE s32 idle_of_set(struct task_struct *p, const struct set *set, s32 last)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask(), *cores;
	s32 cpu = -1;

	/* On a busy machine this is all. */
	if (has_any(set, idle)) {
		if (has_cpu(set, last) && bpf_cpumask_test_cpu(last, p->cpus_ptr) &&
		    scx_bpf_test_and_clear_cpu_idle(last)) {
			cpu = last;
		} else {
			cores = scx_bpf_get_idle_smtmask();
			cpu = take_idle(p, set, cores);
			scx_bpf_put_idle_cpumask(cores);
			if (cpu < 0)
				cpu = take_idle(p, set, idle);
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	return cpu;
}

/* Can the thread run on any CPU of its set? */
INLINE bool has_home(struct task_struct *p, const struct set *set, const struct online *now)
{
	const struct cpumask *allowed = p->cpus_ptr;

#pragma unroll
	for (u32 word = 0; word < WORDS; word++) {
		if (word >= set->words)
			break;
		if (set->cpus[word] & now->cpus[word] & allowed->bits[word])
			return true;
	}
	return false;
}

/*
 * An idle CPU for a thread, wherever it is; it is no longer idle for others. -1: none. The kernel goes on counting a CPU as
 * idle that went off line while it was, until it is asked for once: what is put there goes to the kernel's global queue.
 */
INLINE s32 pick_idle(struct task_struct *p, const struct online *now)
{
#pragma nounroll
	for (u32 tries = 0; tries < 4; tries++) {
		s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		u32 number = cpu;

		if (cpu < 0)
			break;
		if (number < CPUS && (now->cpus[number / 64] & (1ULL << (number % 64))))
			return cpu;
	}
	return -1;
}
