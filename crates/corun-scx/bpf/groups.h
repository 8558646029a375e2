/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Cgroups that have a plan: threads in them that have none of their own take it when they first wake or are queued. By then
 * the kernel knows the cgroup of a thread that was just born, into whichever it was. Who has a plan pays nothing for this.
 */
#pragma once

#include "maps.h"

/* The thread with the plan of its cgroup. NULL: its cgroup has none. */
INLINE struct thread *plan_of_group(struct task_struct *p)
{
	u64 id = p->cgroups->dfl_cgrp->kn->id;
	struct group *group = bpf_map_lookup_elem(&groups, &id);
	struct thread *thread;

	if (!group || !group->set)
		return 0;
	thread = bpf_task_storage_get(&threads, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return 0;
	thread->spill_after_ns = group->spill_after_ns;
	thread->charged_ns = p->se.sum_exec_runtime;
	thread->of_group = 1;
	thread->set = group->set;
	return thread;
}

INLINE void leave_group(struct task_struct *p)
{
	struct thread *thread = thread_of(p);

	if (!thread || !thread->of_group)
		return;
	thread->of_group = 0;
	thread->set = 0;
}

/* A thread, or a process with all its threads, is in another cgroup now. */
SEC("trace/cgroup_attach_task")
int cgroup_attach_task(u64 *ctx)
{
	struct task_struct *moved = (void *)ctx[2], *p;
	bool is_process = ctx[3];
	struct bpf_iter_task all;

	if (!is_process) {
		leave_group(moved);
		return 0;
	}
	bpf_iter_task_new(&all, moved, BPF_TASK_ITER_PROC_THREADS);
	while ((p = bpf_iter_task_next(&all)))
		leave_group(p);
	bpf_iter_task_destroy(&all);
	return 0;
}

/* Run by user space after it took a CPU out of a set: who is queued is queued anew, who runs there goes. */
SEC("syscall/leave_cpu")
int leave_cpu(struct leave *request)
{
	scx_bpf_dsq_reenq(request->set, 0);
	scx_bpf_kick_cpu(request->cpu, OF_KERNEL(scx_kick_flags, SCX_KICK_PREEMPT));
	return 0;
}
