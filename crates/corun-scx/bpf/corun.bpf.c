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
 * A plan can also be that of a cgroup: threads in it without a plan of their own have it from their first wake-up on.
 *
 * Switching is partial: only threads with the policy SCHED_EXT are here, to which corun moves those that it
 * looks after. Threads of nobody's plan take the kernel's defaults. When user space ends for whatever
 * reason, the kernel detaches all of this and threads run as ever.
 */
#include "groups.h"
#include "hotplug.h"
#include "sets.h"
#include "spill.h"

char license_of_this[] SEC("license") = "Dual MIT/GPL";

/* Is the CPU that of the thread that wakes another? Then it is not idle, which spares asking the kernel. */
INLINE bool is_wakers(u32 cpu)
{
	return bpf_get_smp_processor_id() == cpu && bpf_get_current_task_btf()->pid;
}

/*
 * A thread whose set is one CPU wakes: it is put where it waits at once, which leaves out `enqueue`. The CPU misses
 * nobody: it is woken by the kernel where it idles, since the thread wakes there. False: nothing was done.
 */
INLINE bool wake_at_only(struct task_struct *p, struct thread *thread, const struct set *set, u32 cpu, bool is_woken,
			 bool counts_wakers)
{
	struct online *now = online_now();

	if (!now || cpu >= CPUS || !(now->cpus[cpu / 64] & (1ULL << (cpu % 64))) ||
	    !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return false;
	if (!is_wakers(cpu) && scx_bpf_test_and_clear_cpu_idle(cpu)) {
		begin_wait(p, thread, is_woken, counts_wakers);
		thread->took_idle++;
		scx_bpf_dsq_insert(p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_LOCAL), SLICE_NS, 0);
		return true;
	}
	/* It may go elsewhere at once. */
	if (!thread->spill_after_ns)
		return false;
	begin_wait(p, thread, is_woken, counts_wakers);
	queue(p, thread, set, 0);
	return true;
}

INLINE s32 select(u64 *ctx, bool counts_wakers)
{
	struct task_struct *p = (void *)ctx[0];
	s32 last = ctx[1], cpu;
	u64 wake_flags = ctx[2];
	struct thread *thread = thread_of(p);
	struct set *set;
	bool is_idle = false, is_woken;

	if (!thread || !thread->set)
		thread = plan_of_group(p);
	if (!thread || !(set = set_at(thread->set))) {
		cpu = scx_bpf_select_cpu_dfl(p, last, wake_flags, &is_idle);
		if (is_idle)
			scx_bpf_dsq_insert(p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_LOCAL), SLICE_NS, 0);
		return cpu;
	}
	is_woken = wake_flags & OF_KERNEL(scx_wake_flags, SCX_WAKE_TTWU);
	if (set->only) {
		cpu = set->only - 1;
		return wake_at_only(p, thread, set, cpu, is_woken, counts_wakers) ? cpu : last;
	}
	cpu = idle_of_set(p, set, last);
	if (cpu < 0)
		return last;
	begin_wait(p, thread, is_woken, counts_wakers);
	thread->took_idle++;
	scx_bpf_dsq_insert(p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_LOCAL), SLICE_NS, 0);
	return cpu;
}

SEC("struct_ops/select_cpu")
s32 select_cpu(u64 *ctx)
{
	return select(ctx, false);
}

/* Programs of the kind `wakers` are in force where user space wants to know who wakes whom, and there alone. */
SEC("struct_ops/select_cpu:wakers")
s32 select_cpu_wakers(u64 *ctx)
{
	return select(ctx, true);
}

INLINE void enqueue_thread(u64 *ctx, bool counts_wakers)
{
	struct task_struct *p = (void *)ctx[0];
	u64 flags = ctx[1];
	struct thread *thread = thread_of(p);
	struct online *now = online_now();
	const struct cpumask *idle;
	struct set *set;
	bool is_homeless;
	s32 cpu;

	if (!thread || !thread->set)
		thread = plan_of_group(p);
	if (!thread || !now || !(set = set_at(thread->set))) {
		scx_bpf_dsq_insert(p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_GLOBAL), SLICE_NS, flags);
		return;
	}
	begin_wait(p, thread, flags & OF_KERNEL(scx_enq_flags, SCX_ENQ_WAKEUP), counts_wakers);
	cpu = scx_bpf_task_cpu(p);
	is_homeless = !has_home(p, set, now);
	if (is_homeless)
		thread->homeless++;
	/* Nobody else wants the CPU on which it runs. */
	if ((flags & OF_KERNEL(scx_enq_flags, SCX_ENQ_LAST)) && (is_homeless || has_cpu(set, cpu))) {
		scx_bpf_dsq_insert(p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_LOCAL), SLICE_NS, flags);
		return;
	}
	/*
	 * A thread without a home does not go to the kernel's global queue. Each node has one of its own, which CPUs of
	 * other nodes do not look into, and no idle CPU is woken for it.
	 */
	if (is_homeless || !thread->spill_after_ns) {
		cpu = pick_idle(p, now);
		if (cpu >= 0) {
			if (!is_homeless && has_cpu(set, cpu))
				thread->took_idle++;
			else if (!is_homeless)
				thread->spilled++;
			thread->waited++;
			scx_bpf_dsq_insert(p, OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_LOCAL_ON) | cpu, SLICE_NS,
					   flags);
			scx_bpf_kick_cpu(cpu, OF_KERNEL(scx_kick_flags, SCX_KICK_IDLE));
			return;
		}
	}
	queue(p, thread, set, flags);
	/* A CPU may have become idle since it was asked, before it could see the queue. */
	if (is_homeless) {
		cpu = pick_idle(p, now);
	} else {
		idle = scx_bpf_get_idle_cpumask();
		cpu = take_idle(p, set, idle);
		scx_bpf_put_idle_cpumask(idle);
	}
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, OF_KERNEL(scx_kick_flags, SCX_KICK_IDLE));
}

SEC("struct_ops/enqueue")
int enqueue(u64 *ctx)
{
	enqueue_thread(ctx, false);
	return 0;
}

SEC("struct_ops/enqueue:wakers")
int enqueue_wakers(u64 *ctx)
{
	enqueue_thread(ctx, true);
	return 0;
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
	if (here->takes) {
		best = here->takes;
		here->takes = 0;
		if (scx_bpf_dsq_move_to_local(best))
			return 0;
		best = 0;
	}
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

SEC("struct_ops/tick")
int tick(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct settings *settings = settings_now();
	struct thread *thread = thread_of(p);
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu *here = cpu_at(cpu);
	struct online *online = online_now();
	struct set *set;
	u64 now = scx_bpf_now();
	u32 other;

	if (!thread || !here || !settings || !online || cpu >= CPUS)
		return 0;
	set = set_at(thread->set);
	/* Its plan changed while it ran, or it spilled: back as soon as others may run. */
	if (set && thread->set && !has_cpu(set, cpu) && has_home(p, set, online)) {
		thread->ticks_outside++;
		scx_bpf_task_set_slice(p, 0);
	}
#pragma unroll
	for (u32 i = 0; i < SETS_OF_CPU; i++) {
		if (i >= here->count)
			break;
		help(here->sets[i], online, now);
	}
	/* And of the other sets one a tick: all their CPUs may be others', where no tick comes here. */
	other = here->looked_at + 1;
	if (other >= settings->sets)
		other = 1;
	here->looked_at = other;
	help(other, online, now);
	if (help_homeless(other, cpu, online)) {
		here->takes = other;
		scx_bpf_task_set_slice(p, 0);
	}
	return 0;
}

SEC("struct_ops/init_task")
int init_task(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct scx_init_task_args *args = (void *)ctx[1];
	struct thread *maker, *thread;

	/*
	 * A thread begins where its maker is held, as it would with an affinity. A cgroup's plan is not handed on: the thread
	 * may be born into another cgroup.
	 */
	if (!args->fork)
		return 0;
	maker = thread_of(bpf_get_current_task_btf());
	if (!maker || !maker->set || maker->of_group)
		return 0;
	thread = bpf_task_storage_get(&threads, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return 0;
	thread->spill_after_ns = maker->spill_after_ns;
	thread->set = maker->set;
	thread->charged_ns = p->se.sum_exec_runtime;
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

/*
 * Run by user space: gives a thread its plan, and lets it go to its CPUs at once where it runs elsewhere. A thread that is
 * put on a CPU by its old plan while this runs is found there by the next tick.
 */
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
	thread->of_group = 0;
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
