/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * corun's scheduler in the kernel: threads stay on the CPUs that a policy prefers for them, and leave them
 * when work has waited there for too long.
 *
 * Policies are in user space. They say for a thread in which set of CPUs it is to run; a set is a queue
 * here. A thread that wakes takes an idle CPU of its set. Where there is none it waits in the queue of the
 * set, by weighted virtual time. When it has waited longer than its bound, the next idle CPU elsewhere takes
 * it (a spill). All three are counted.
 *
 * Switching is partial: only threads with the policy SCHED_EXT are here, to which corun moves those that it
 * looks after. Threads of nobody's plan take the kernel's defaults. When user space ends for whatever
 * reason, the kernel detaches all of this and threads run as ever.
 */
#include "kernel.h"

char license_of_this[] SEC("license") = "Dual MIT/GPL";

/* src/layout.rs has the same numbers and structures. */
#define WORDS 16 /* 1024 CPUs */
#define CPUS (WORDS * 64)
#define WAKER_PAIRS 16384
#define STINTS 16384
#define SETS 128 /* set 0 is none */
#define SETS_OF_CPU 16
#define SLICE_NS (5ULL * 1000 * 1000)
#define NORMAL_WEIGHT 100 /* of nice 0 */
#define NEVER (~0ULL)
#define SCANNED 16 /* threads of a queue that are looked at for one that waited too long */

/* CPUs that some threads are to run on; its number is that of its queue. */
struct set {
	u64 cpus[WORDS];
	/* The virtual time of the thread that began to run last. */
	u64 vtime;
	/* Words of `cpus` that count: up to the last that is not 0. */
	u64 words;
	/* Of a set of one CPU: its number and 1. 0: of several. */
	u64 only;
};

/* The sets that a CPU is in. */
struct cpu {
	u32 count;
	u32 sets[SETS_OF_CPU];
	/* The set whose wait the next tick looks at. */
	u32 looked_at;
};

struct thread {
	/* Its plan, which user space writes: */
	u64 spill_after_ns;
	u32 set;
	/* What happened to it: */
	u64 switches;
	u64 wakeups;
	u64 wait_ns;
	u64 longest_wait_ns;
	u64 took_idle;
	u64 waited;
	u64 spilled;
	u64 homeless;
	/* Since when it can run and does not (0: it came here running). */
	u64 waits_since_ns;
	/* Since when it is on a CPU, in the clock of user space. 0: it is on none, or stints are not kept. */
	u64 runs_since_ns;
	/* Its virtual time, and its time on CPUs up to which that is. */
	u64 vtime;
	u64 charged_ns;
};

/* User space alone writes this. */
struct settings {
	/* All sets that were ever in use are below. */
	u32 sets;
	/* Count who wakes whom. */
	u32 count_wakers;
};

/* User space writes this before the scheduler is in force; from then on the kernel's hot-plugging does. */
struct online {
	u64 cpus[WORDS];
};

struct pair {
	s32 waker;
	s32 wakee;
};

/* A time for which a thread was on a CPU, in the clock of user space. */
struct stint {
	u64 since_ns;
	u64 until_ns;
	s32 tid;
	s32 cpu;
};

struct exit {
	u64 kind;
	char reason[64];
	char message[192];
};

/* What user space hands to `plan_thread`. */
struct request {
	u64 spill_after_ns;
	s32 tid;
	u32 set;
	s32 answer;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SETS);
	__type(key, u32);
	__type(value, struct set);
} sets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct online);
} online SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WAKER_PAIRS);
	__type(key, struct pair);
	__type(value, u64);
} wakers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, STINTS);
	__type(value, struct stint);
} stints SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct exit);
} exits SEC(".maps");

INLINE struct thread *thread_of(struct task_struct *p)
{
	return bpf_task_storage_get(&threads, p, 0, 0);
}

INLINE struct set *set_at(u32 set)
{
	return bpf_map_lookup_elem(&sets, &set);
}

INLINE struct cpu *cpu_at(u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

INLINE struct settings *settings_now(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&settings, &zero);
}

INLINE struct online *online_now(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&online, &zero);
}

INLINE bool is_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

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

INLINE bool waited_too_long(const struct thread *thread, u64 now)
{
	u64 bound = thread->spill_after_ns;

	return bound != NEVER && !is_before(now, thread->waits_since_ns + bound);
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

INLINE void count_waker(struct task_struct *wakee)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct pair pair = { .waker = waker->pid, .wakee = wakee->pid };
	struct settings *now = settings_now();
	u64 one = 1, *count;

	if (!now || !now->count_wakers || pair.waker == 0)
		return;
	count = bpf_map_lookup_elem(&wakers, &pair);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&wakers, &pair, &one, BPF_NOEXIST);
}

/* It can run from now on. */
INLINE void begin_wait(struct task_struct *p, struct thread *thread, bool is_woken)
{
	thread->waits_since_ns = scx_bpf_now();
	if (is_woken) {
		thread->wakeups++;
		count_waker(p);
	}
}

/*
 * A thread whose set is one CPU wakes: it is put where it waits at once, which leaves out `enqueue`. The CPU misses
 * nobody: it is woken by the kernel where it idles, since the thread wakes there. False: nothing was done.
 */
INLINE bool wake_at_only(struct task_struct *p, struct thread *thread, const struct set *set, u32 cpu, bool is_woken)
{
	struct online *now = online_now();

	if (!now || cpu >= CPUS || !(now->cpus[cpu / 64] & (1ULL << (cpu % 64))) ||
	    !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return false;
	if (scx_bpf_test_and_clear_cpu_idle(cpu)) {
		begin_wait(p, thread, is_woken);
		thread->took_idle++;
		scx_bpf_dsq_insert(p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_LOCAL), SLICE_NS, 0);
		return true;
	}
	/* It may go elsewhere at once. */
	if (!thread->spill_after_ns)
		return false;
	begin_wait(p, thread, is_woken);
	queue(p, thread, set, 0);
	return true;
}

SEC("struct_ops/select_cpu")
s32 select_cpu(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	s32 last = ctx[1], cpu;
	u64 wake_flags = ctx[2];
	struct thread *thread = thread_of(p);
	struct set *set;
	bool is_idle = false, is_woken;

	if (!thread || !thread->set || !(set = set_at(thread->set))) {
		cpu = scx_bpf_select_cpu_dfl(p, last, wake_flags, &is_idle);
		if (is_idle)
			scx_bpf_dsq_insert(p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_LOCAL), SLICE_NS, 0);
		return cpu;
	}
	is_woken = wake_flags & OF_KERNEL(scx_wake_flags, SCX_WAKE_TTWU);
	if (set->only) {
		cpu = set->only - 1;
		return wake_at_only(p, thread, set, cpu, is_woken) ? cpu : last;
	}
	cpu = idle_of_set(p, set, last);
	if (cpu < 0)
		return last;
	begin_wait(p, thread, is_woken);
	thread->took_idle++;
	scx_bpf_dsq_insert(p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_LOCAL), SLICE_NS, 0);
	return cpu;
}

SEC("struct_ops/enqueue")
int enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 flags = ctx[1];
	struct thread *thread = thread_of(p);
	struct online *now = online_now();
	const struct cpumask *idle;
	struct set *set;
	s32 cpu;

	if (!thread || !now || !thread->set || !(set = set_at(thread->set))) {
		scx_bpf_dsq_insert(p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_GLOBAL), SLICE_NS, flags);
		return 0;
	}
	begin_wait(p, thread, flags & OF_KERNEL(scx_enq_flags, SCX_ENQ_WAKEUP));
	cpu = scx_bpf_task_cpu(p);
	/* Nobody else wants the CPU on which it runs. */
	if ((flags & OF_KERNEL(scx_enq_flags, SCX_ENQ_LAST)) && has_cpu(set, cpu)) {
		scx_bpf_dsq_insert(p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_LOCAL), SLICE_NS, flags);
		return 0;
	}
	if (!has_home(p, set, now)) {
		thread->homeless++;
		scx_bpf_dsq_insert(p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_GLOBAL), SLICE_NS, flags);
		return 0;
	}
	if (!thread->spill_after_ns) {
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (cpu >= 0) {
			if (has_cpu(set, cpu))
				thread->took_idle++;
			else
				thread->spilled++;
			thread->waited++;
			scx_bpf_dsq_insert(p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_LOCAL_ON) | cpu, SLICE_NS,
					   flags);
			scx_bpf_kick_cpu(cpu, OF_KERNEL(scx_kick_flags, SCX_KICK_IDLE));
			return 0;
		}
	}
	queue(p, thread, set, flags);
	/* A CPU may have become idle since it was asked, before it could see the queue. */
	idle = scx_bpf_get_idle_cpumask();
	cpu = take_idle(p, set, idle);
	scx_bpf_put_idle_cpumask(idle);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, OF_KERNEL(scx_kick_flags, SCX_KICK_IDLE));
	return 0;
}

/* Takes the first thread of other sets that waited too long and may run here. */
INLINE void take_spill(s32 cpu)
{
	struct settings *settings = settings_now();
	struct cpu *here = cpu_at(cpu);
	struct bpf_iter_scx_dsq waiting;
	struct bpf_iter_num numbers;
	struct task_struct *p;
	struct thread *thread;
	u64 now = scx_bpf_now();
	bool is_taken = false;
	int *number, left;

	if (!settings || !here)
		return;
	bpf_iter_num_new(&numbers, 1, settings->sets);
	while (!is_taken && (number = bpf_iter_num_next(&numbers))) {
		u64 queue = *number;

		if (scx_bpf_dsq_nr_queued(queue) <= 0)
			continue;
		left = SCANNED;
		bpf_iter_scx_dsq_new(&waiting, queue, 0);
		while (left-- > 0 && (p = bpf_iter_scx_dsq_next(&waiting))) {
			thread = thread_of(p);
			if (!thread || !waited_too_long(thread, now) ||
			    !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
				continue;
			if (scx_bpf_dsq_move(&waiting, p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_LOCAL_ON) | cpu,
					     0)) {
				thread->spilled++;
				is_taken = true;
				break;
			}
		}
		bpf_iter_scx_dsq_destroy(&waiting);
	}
	bpf_iter_num_destroy(&numbers);
}

SEC("struct_ops/dispatch")
int dispatch(u64 *ctx)
{
	s32 cpu = ctx[0];
	struct task_struct *previous = (void *)ctx[1], *head;
	struct cpu *here = cpu_at(cpu);
	u64 earliest = 0;
	u32 best = 0;

	if (!here)
		return 0;
	if (here->count == 1) {
		if (scx_bpf_dsq_move_to_local(here->sets[0]))
			return 0;
	} else {
#pragma unroll
		for (u32 i = 0; i < SETS_OF_CPU; i++) {
			if (i >= here->count)
				break;
			head = scx_bpf_dsq_peek(here->sets[i]);
			if (head && (!best || is_before(head->scx.dsq_vtime, earliest))) {
				best = here->sets[i];
				earliest = head->scx.dsq_vtime;
			}
		}
		if (best && scx_bpf_dsq_move_to_local(best))
			return 0;
		/* Another CPU was quicker, or the first may not run here. */
		if (best) {
#pragma unroll
			for (u32 i = 0; i < SETS_OF_CPU; i++) {
				if (i >= here->count)
					break;
				if (scx_bpf_dsq_move_to_local(here->sets[i]))
					return 0;
			}
		}
	}
	if (previous && (previous->scx.flags & OF_KERNEL(scx_ent_flags, SCX_TASK_QUEUED)))
		return 0;
	take_spill(cpu);
	return 0;
}

INLINE void begin_run(struct thread *thread)
{
	struct set *set;
	u64 wait;

	wait = scx_bpf_now() - thread->waits_since_ns;
	if (thread->waits_since_ns && (s64)wait > 0) {
		thread->wait_ns += wait;
		if (wait > thread->longest_wait_ns)
			thread->longest_wait_ns = wait;
	}
	thread->waits_since_ns = 0;
	thread->switches++;
	set = set_at(thread->set);
	if (set && is_before(set->vtime, thread->vtime))
		set->vtime = thread->vtime;
}

SEC("struct_ops/running")
int running(u64 *ctx)
{
	struct thread *thread = thread_of((void *)ctx[0]);

	if (thread)
		begin_run(thread);
	return 0;
}

/* Programs of the kind `stints` are in force where user space wants to know of each switch, and there alone. */
SEC("struct_ops/running:stints")
int running_stints(u64 *ctx)
{
	struct thread *thread = thread_of((void *)ctx[0]);

	if (!thread)
		return 0;
	begin_run(thread);
	thread->runs_since_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("struct_ops/stopping:stints")
int stopping_stints(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct thread *thread = thread_of(p);
	struct stint stint = {};

	if (!thread || !thread->runs_since_ns)
		return 0;
	stint.until_ns = bpf_ktime_get_ns();
	stint.since_ns = thread->runs_since_ns;
	stint.tid = p->pid;
	stint.cpu = scx_bpf_task_cpu(p);
	thread->runs_since_ns = 0;
	bpf_map_push_elem(&stints, &stint, BPF_EXIST);
	return 0;
}

/* Wakes an idle CPU elsewhere for a thread of this queue that waited too long. */
INLINE void help(u32 queue, u64 now)
{
	struct task_struct *head = scx_bpf_dsq_peek(queue);
	struct thread *thread;
	s32 cpu;

	if (!head)
		return;
	thread = thread_of(head);
	if (!thread || !waited_too_long(thread, now))
		return;
	cpu = scx_bpf_pick_idle_cpu(head->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, OF_KERNEL(scx_kick_flags, SCX_KICK_IDLE));
}

SEC("struct_ops/tick")
int tick(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct settings *settings = settings_now();
	struct thread *thread = thread_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu *here = cpu_at(cpu);
	struct set *set;
	u64 now = scx_bpf_now();
	u32 other;

	if (!thread || !here || !settings)
		return 0;
	set = set_at(thread->set);
	/* Its plan changed while it ran, or it spilled: back as soon as others may run. */
	if (set && thread->set && !has_cpu(set, cpu))
		scx_bpf_task_set_slice(p, 0);
#pragma unroll
	for (u32 i = 0; i < SETS_OF_CPU; i++) {
		if (i >= here->count)
			break;
		help(here->sets[i], now);
	}
	/* And of the other sets one a tick: all their CPUs may be others', where no tick comes here. */
	other = here->looked_at + 1;
	if (other >= settings->sets)
		other = 1;
	here->looked_at = other;
	help(other, now);
	return 0;
}

SEC("struct_ops/init_task")
int init_task(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct scx_init_task_args *args = (void *)ctx[1];
	struct thread *maker, *thread;

	/* A thread begins where its maker is held, as it would with an affinity. */
	if (!args->fork)
		return 0;
	maker = thread_of(bpf_get_current_task_btf());
	if (!maker || !maker->set)
		return 0;
	thread = bpf_task_storage_get(&threads, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return 0;
	thread->spill_after_ns = maker->spill_after_ns;
	thread->set = maker->set;
	thread->charged_ns = p->se.sum_exec_runtime;
	return 0;
}

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

SEC("struct_ops/cpu_offline")
int cpu_offline(u64 *ctx)
{
	struct settings *settings = settings_now();
	struct online *now = online_now();
	struct bpf_iter_num numbers;
	int *number;

	set_online(ctx[0], false);
	if (!settings || !now)
		return 0;
	bpf_iter_num_new(&numbers, 1, settings->sets);
	while ((number = bpf_iter_num_next(&numbers))) {
		bpf_rcu_read_lock();
		empty_without_home(*number, now);
		bpf_rcu_read_unlock();
	}
	bpf_iter_num_destroy(&numbers);
	return 0;
}

SEC("struct_ops.s/init")
s32 init(u64 *ctx)
{
	struct bpf_iter_num numbers;
	int *number, failed = 0;

	bpf_iter_num_new(&numbers, 1, SETS);
	while (!failed && (number = bpf_iter_num_next(&numbers)))
		failed = scx_bpf_create_dsq(*number, -1);
	bpf_iter_num_destroy(&numbers);
	return failed;
}

SEC("struct_ops/exit")
int exit(u64 *ctx)
{
	struct scx_exit_info *info = (void *)ctx[0];
	u32 zero = 0;
	struct exit *exit = bpf_map_lookup_elem(&exits, &zero);

	if (!exit)
		return 0;
	bpf_probe_read_kernel_str(exit->reason, sizeof(exit->reason), info->reason);
	bpf_probe_read_kernel_str(exit->message, sizeof(exit->message), info->msg);
	exit->kind = info->kind;
	return 0;
}

/* Run by user space: gives a thread its plan, and lets it go to its CPUs at once where it runs elsewhere. */
SEC("syscall/plan_thread")
int plan_thread(struct request *request)
{
	struct task_struct *p = bpf_task_from_vpid(request->tid);
	struct thread *thread;
	struct set *set;
	u32 before;
	s32 cpu;

	if (!p) {
		request->answer = -3; /* ESRCH */
		return 0;
	}
	thread = bpf_task_storage_get(&threads, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		request->answer = -12; /* ENOMEM */
		bpf_task_release(p);
		return 0;
	}
	thread->spill_after_ns = request->spill_after_ns;
	before = thread->set;
	if (!before)
		thread->charged_ns = p->se.sum_exec_runtime;
	thread->set = request->set;
	request->answer = 0;
	set = set_at(request->set);
	if (set && request->set != before) {
		cpu = scx_bpf_task_cpu(p);
		if (scx_bpf_task_running(p)) {
			if (!has_cpu(set, cpu))
				scx_bpf_kick_cpu(cpu, OF_KERNEL(scx_kick_flags, SCX_KICK_PREEMPT));
		} else if (before) {
			/* Who is queued is queued anew, by the new plan. */
			scx_bpf_dsq_reenq(before, 0);
		}
	}
	bpf_task_release(p);
	return 0;
}
