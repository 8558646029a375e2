// Placements as the page changes them: who is where, and which ways of an LLC are whose.

import type { Drawing } from "./api";

export interface Layout {
  /** Each program's CPU, by the machine's own number. */
  cpu: number[];
  mask: (string | null)[] | null;
}

/** Ways from `low` to before `high`. */
export interface Segment {
  low: number;
  high: number;
  programs: number[];
}

/** A mask as the server writes it: equal masks are equal texts. */
export const canonicalMask = (ways: bigint): string => `0x${ways.toString(16)}`;

export const maskOf = (low: number, high: number): string =>
  canonicalMask(((1n << BigInt(high - low)) - 1n) << BigInt(low));

function ends(mask: string): { low: number; high: number } {
  const bits = BigInt(mask).toString(2);
  const low = bits.length - 1 - bits.lastIndexOf("1");
  return { low, high: bits.length };
}

export class Machine {
  readonly byId = new Map<number, Drawing["cpus"][number]>();

  constructor(readonly drawing: Drawing) {
    for (const cpu of drawing.cpus) this.byId.set(cpu.id, cpu);
  }

  llcOf(cpu: number): number {
    return this.byId.get(cpu)?.llc ?? -1;
  }

  /** The programs under an LLC, by CPU. */
  under(layout: Layout, llc: number): number[] {
    const here = layout.cpu.flatMap((cpu, program) => (this.llcOf(cpu) === llc ? [program] : []));
    return here.sort((one, other) => layout.cpu[one] - layout.cpu[other]);
  }

  /** The parts of a divided LLC from way 0 up; empty where the LLC is whole. */
  segments(layout: Layout, llc: number): Segment[] {
    const found = new Map<string, Segment>();
    for (const program of this.under(layout, llc)) {
      const mask = layout.mask?.[program];
      if (!mask) continue;
      const known = found.get(mask);
      if (known) known.programs.push(program);
      else found.set(mask, { ...ends(mask), programs: [program] });
    }
    return [...found.values()].sort((one, other) => one.low - other.low);
  }

  withSegments(layout: Layout, segments: Segment[]): Layout {
    const mask = layout.mask ? [...layout.mask] : layout.cpu.map(() => null);
    for (const { low, high, programs } of segments) {
      for (const program of programs) mask[program] = maskOf(low, high);
    }
    return { cpu: layout.cpu, mask };
  }

  /** Each program under the LLC gets as many ways as the next, the first ones what is left over. */
  divided(layout: Layout, llc: number): Layout {
    const ways = this.drawing.llcs[llc].ways ?? 0;
    const programs = this.under(layout, llc);
    let low = 0;
    const segments = programs.map((program, place) => {
      const count = Math.floor(ways / programs.length) + (place < ways % programs.length ? 1 : 0);
      low += count;
      return { low: low - count, high: low, programs: [program] };
    });
    return this.withSegments(layout, segments);
  }

  whole(layout: Layout, llc: number): Layout {
    const mask = layout.mask?.map((one, program) => (this.llcOf(layout.cpu[program]) === llc ? null : one)) ?? null;
    return { cpu: layout.cpu, mask };
  }

  /**
   * A program on another CPU; who is there takes its place. Ways belong to places: on a divided LLC the newcomer has
   * the ways of whose place it takes, on a free CPU there those of the widest part.
   */
  moved(layout: Layout, program: number, cpu: number): Layout {
    const other = layout.cpu.indexOf(cpu);
    if (other === program) return layout;
    const before = layout.cpu[program];
    const places = [...layout.cpu];
    places[program] = cpu;
    if (other >= 0) places[other] = before;
    const mask = layout.mask ? [...layout.mask] : null;
    if (mask && this.llcOf(before) !== this.llcOf(cpu)) {
      if (other >= 0) {
        [mask[program], mask[other]] = [mask[other], mask[program]];
      } else {
        mask[program] = this.widestMask(layout, this.llcOf(cpu));
      }
    }
    return { cpu: places, mask };
  }

  /** The mask of an LLC's widest part; null where the LLC is whole. */
  private widestMask(layout: Layout, llc: number): string | null {
    const widest = this.segments(layout, llc).reduce<Segment | null>(
      (best, one) => (best && best.high - best.low >= one.high - one.low ? best : one),
      null,
    );
    return widest && maskOf(widest.low, widest.high);
  }

  /** The layout with one more program, on a free CPU; null where none is free. */
  withOneMore(layout: Layout): Layout | null {
    const cpu = this.free(layout);
    if (cpu === null) return null;
    const mask = layout.mask && [...layout.mask, this.widestMask(layout, this.llcOf(cpu))];
    return { cpu: [...layout.cpu, cpu], mask };
  }

  /** The first free CPU, on an idle core where there is one. */
  free(layout: Layout): number | null {
    const taken = new Set(layout.cpu);
    const busy = new Set(layout.cpu.map((cpu) => this.byId.get(cpu)?.core));
    const free = this.drawing.cpus.filter((cpu) => !taken.has(cpu.id));
    return (free.find((cpu) => !busy.has(cpu.core)) ?? free[0])?.id ?? null;
  }
}
