/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the scheduler needs of the kernel: types with the members that it reads, enumerators, helpers and
 * kfuncs. Offsets and values here are those of no kernel in particular: the compiler records each access
 * (CO-RE, preserve_access_index), and the loader puts in what the running kernel's BTF says.
 */
#pragma once

#include "bpf.h"

#define KFUNC extern __attribute__((section(".ksyms")))
/* A map's definition, as the loader reads it from the object's BTF. */
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cpumask {
	unsigned long bits[128];
};

struct sched_ext_entity {
	u32 flags;
	u32 weight;
	u64 slice;
	u64 dsq_vtime;
};

struct sched_entity {
	u64 sum_exec_runtime;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	/* The cgroup of version 2. */
	struct cgroup *dfl_cgrp;
};

struct task_struct {
	const struct cpumask *cpus_ptr;
	s32 pid;
	s32 tgid;
	struct css_set *cgroups;
	struct sched_entity se;
	struct sched_ext_entity scx;
};

struct scx_init_task_args {
	bool fork;
};

struct scx_exit_info {
	u32 kind;
	const char *reason;
	char *msg;
};

struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};

#pragma clang attribute pop

/* Open-coded iterators: over numbers, over tasks, and over the tasks of a queue. */
struct bpf_iter_num {
	u64 opaque[1];
};
struct bpf_iter_task {
	u64 opaque[3];
};
struct bpf_iter_scx_dsq {
	u64 opaque[6];
};
#define BPF_TASK_ITER_PROC_THREADS 2

/* The loader asks the kernel for the values of these by name. */
enum scx_dsq_id_flags {
	SCX_DSQ_GLOBAL = 0x8000000000000001ULL,
	SCX_DSQ_LOCAL = 0x8000000000000002ULL,
	SCX_DSQ_LOCAL_ON = 0xc000000000000000ULL,
};
enum scx_enq_flags {
	SCX_ENQ_WAKEUP = 1ULL,
	SCX_ENQ_LAST = 1ULL << 41,
};
enum scx_wake_flags {
	SCX_WAKE_TTWU = 8,
};
enum scx_kick_flags {
	SCX_KICK_IDLE = 1,
	SCX_KICK_PREEMPT = 2,
};
enum scx_ent_flags {
	SCX_TASK_QUEUED = 1,
};
enum cpuhp_state {
	CPUHP_AP_ACTIVE = 200,
};
#define OF_KERNEL(type, name) \
	((u64)__builtin_preserve_enum_value(*(enum type *)name, 1))

/* Helpers, by their numbers in linux/bpf.h. */
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static long (*bpf_map_push_elem)(void *map, const void *value, u64 flags) = (void *)87;
static long (*bpf_probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static void *(*bpf_task_storage_get)(void *map, struct task_struct *task, void *value, u64 flags) = (void *)156;
static struct task_struct *(*bpf_get_current_task_btf)(void) = (void *)158;
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define BPF_NOEXIST 1
#define BPF_EXIST 2

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
#define BPF_F_NO_PREALLOC 1

KFUNC int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end);
KFUNC int *bpf_iter_num_next(struct bpf_iter_num *it);
KFUNC void bpf_iter_num_destroy(struct bpf_iter_num *it);
KFUNC int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *task, u32 flags);
KFUNC struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it);
KFUNC void bpf_iter_task_destroy(struct bpf_iter_task *it);
KFUNC int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags);
KFUNC struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it);
KFUNC void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it);
KFUNC bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask);
KFUNC void bpf_rcu_read_lock(void);
KFUNC void bpf_rcu_read_unlock(void);
KFUNC struct task_struct *bpf_task_from_vpid(s32 vpid);
KFUNC void bpf_task_release(struct task_struct *p);
KFUNC s32 scx_bpf_create_dsq(u64 dsq_id, s32 node);
KFUNC void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags);
KFUNC bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args);
KFUNC bool scx_bpf_dsq_move_to_local(u64 dsq_id);
KFUNC bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags);
KFUNC s32 scx_bpf_dsq_nr_queued(u64 dsq_id);
KFUNC struct task_struct *scx_bpf_dsq_peek(u64 dsq_id);
KFUNC void scx_bpf_kick_cpu(s32 cpu, u64 flags);
KFUNC const struct cpumask *scx_bpf_get_idle_cpumask(void);
KFUNC const struct cpumask *scx_bpf_get_idle_smtmask(void);
KFUNC void scx_bpf_put_idle_cpumask(const struct cpumask *mask);
KFUNC bool scx_bpf_test_and_clear_cpu_idle(s32 cpu);
KFUNC s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags);
KFUNC s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle);
KFUNC s32 scx_bpf_task_cpu(const struct task_struct *p);
KFUNC bool scx_bpf_task_running(const struct task_struct *p);
KFUNC bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice);
KFUNC u64 scx_bpf_now(void);
/* Since Linux 7.1. */
KFUNC void scx_bpf_dsq_reenq(u64 dsq_id, u64 flags);
