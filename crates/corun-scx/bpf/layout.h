/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the scheduler and user space hand to each other. */
#pragma once

#include "kernel.h"

/* src/layout.rs has the same numbers and structures. */
#define WORDS 16 /* 1024 CPUs */
#define CPUS (WORDS * 64)
#define WAKER_PAIRS 16384
#define STINTS 16384
#define SETS 128 /* set 0 is none */
#define SETS_OF_CPU 16
#define GROUPS 128

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
	/* The queue from which the next thread comes, whatever waits here: its head is homeless. 0: none. */
	u32 takes;
};

struct thread {
	/* Its plan, which user space writes: */
	u64 spill_after_ns;
	u32 set;
	/* It has the plan of its cgroup, and none of its own. */
	u32 of_group;
	/* What happened to it: */
	u64 switches;
	u64 wakeups;
	u64 wait_ns;
	u64 longest_wait_ns;
	u64 took_idle;
	u64 waited;
	u64 spilled;
	u64 homeless;
	/* Ticks that found it on a CPU outside of its set although one of the set was there for it. */
	u64 ticks_outside;
	/* Since when it can run and does not (0: it came here running). */
	u64 waits_since_ns;
	/* Since when it is on a CPU, in the clock of user space. 0: it is on none, or stints are not kept. */
	u64 runs_since_ns;
	/* Its virtual time, and its time on CPUs up to which that is. */
	u64 vtime;
	u64 charged_ns;
	/* Who woke it last, how often since that was last added to `wakers`, and when it was. */
	s32 waker;
	u32 woken;
	u64 told_ns;
};

/* The plan of a cgroup, by the kernel's number of it. User space alone writes this. */
struct group {
	u64 spill_after_ns;
	/* A set of its own: its CPUs change, and all threads of the cgroup follow. */
	u64 set;
};

/* User space alone writes this. */
struct settings {
	/* All sets that were ever in use are below. */
	u64 sets;
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

/* What user space hands to `leave_cpu`. */
struct leave {
	u32 set;
	s32 cpu;
};
