/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What every program here is written with. */
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
typedef _Bool bool;
#define true 1
#define false 0

#define SEC(name) __attribute__((section(name), used))
#define INLINE static __attribute__((always_inline)) inline
