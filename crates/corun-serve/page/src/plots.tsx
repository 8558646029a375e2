// Small plots, each with its content in words for those who do not see it.

import type { AbPair, Details } from "./api";
import { useDrawnWidth } from "./drawn-width";
import { fixed, shown, size } from "./figures";
import { around, labels, type Box } from "./labels";

/** Until a plot is there and its width is known. */
const WIDTH = 320;
const HEIGHT = 150;
const LEFT = 38;
const BOTTOM = 30;
const TOP = 14;

function ticks(most: number): number[] {
  if (!(most > 0)) return [0];
  const step = 10 ** Math.floor(Math.log10(most));
  const wide = most / step >= 5 ? 2 * step : most / step >= 2 ? step : step / 2;
  const found = [];
  for (let value = 0; value <= most * 1.0001; value += wide) found.push(value);
  return found;
}

/** Round values from one end of an axis to the other, some five of them. */
function roundTicks(low: number, high: number): number[] {
  const rough = (high - low) / 5;
  const step = 10 ** Math.floor(Math.log10(rough));
  const wide = [1, 2, 5, 10].map((times) => times * step).find((one) => one >= rough)!;
  const found = [];
  for (let at = Math.ceil(low / wide); at * wide <= high; at += 1) found.push(at * wide);
  return found;
}

/** Misses against the LLC that a program holds, with a mark where it sits. */
export function MissCurve({ details, held, mpki }: { details: Details; held: number; mpki: number }) {
  const [drawn, wide] = useDrawnWidth(WIDTH);
  const points = details.by_ways;
  const last = points[points.length - 1];
  const right = Math.max(last.llc_occupancy_bytes, held, 1);
  const top = Math.max(...points.map((one) => one.llc_mpki), mpki, 0.1) * 1.08;
  const x = (bytes: number) => LEFT + (bytes / right) * (wide - LEFT - 10);
  const y = (value: number) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
  // Below the mark where there is no room above it.
  const labelAt = y(mpki) < TOP + 14 ? y(mpki) + 16 : y(mpki) - 6;
  const line = points.map((one) => `${x(one.llc_occupancy_bytes).toFixed(1)},${y(one.llc_mpki).toFixed(1)}`).join(" ");
  const words =
    `Misses of ${shown(details.app)} per 1000 instructions by the cache that it holds: ` +
    `${fixed(points[0].llc_mpki, 2)} with ${size(points[0].llc_occupancy_bytes)}, ` +
    `${fixed(last.llc_mpki, 2)} with ${size(last.llc_occupancy_bytes)}; now ${fixed(mpki, 2)} with ${size(held)}.`;
  return (
    <figure class="plotted">
      <figcaption>Misses by cache held</figcaption>
      <svg ref={drawn} height={HEIGHT} viewBox={`0 0 ${wide} ${HEIGHT}`} role="img" aria-label={words}>
        {ticks(top).map((value) => (
          <g key={value}>
            <line class="grid" x1={LEFT} x2={wide - 10} y1={y(value)} y2={y(value)} />
            <text class="tick" x={LEFT - 5} y={y(value) + 4} text-anchor="end">
              {Number(value.toFixed(2))}
            </text>
          </g>
        ))}
        {[0, 0.5, 1].map((part) => (
          <text key={part} class="tick" x={x(part * right)} y={HEIGHT - BOTTOM + 13}
            text-anchor={part === 0 ? "start" : part === 1 ? "end" : "middle"}>
            {size(part * right)}
          </text>
        ))}
        <text class="tick" x={LEFT} y={9}>misses per 1000 instructions</text>
        <text class="tick" x={wide - 10} y={HEIGHT - 3} text-anchor="end">LLC held</text>
        <polyline class="curve" points={line} />
        <line class="mark-line" x1={x(held)} x2={x(held)} y1={TOP} y2={HEIGHT - BOTTOM} />
        <circle class="mark" cx={x(held)} cy={y(mpki)} r="5" />
        <text class="mark-text" x={x(held) + (held > right / 2 ? -9 : 9)} y={labelAt}
          text-anchor={held > right / 2 ? "end" : "start"}>
          now
        </text>
      </svg>
    </figure>
  );
}

const CAUSES: Record<string, [string, string]> = {
  base: ["work", "c-base"],
  dependences: ["waiting for results", "c-core"],
  other_stalls: ["waiting inside the core", "c-core"],
  l1: ["first-level cache", "c-core"],
  private_cache: ["private cache", "c-core"],
  llc: ["LLC hits", "c-llc"],
  memory: ["memory", "c-memory"],
  translation: ["address translation", "c-front"],
  stores: ["full store buffer", "c-front"],
  branches: ["mispredicted branches", "c-front"],
  fetches: ["instruction fetches", "c-front"],
  kernel: ["kernel", "c-front"],
  others: ["waiting behind others", "c-others"],
};

/** Where a program's cycles go. */
export function CpiStack({ details }: { details: Details }) {
  const all = details.cycles.reduce((sum, one) => sum + one.cycles_per_instruction, 0);
  const groups = new Map<string, { cycles: number; names: string[] }>();
  for (const { cause, cycles_per_instruction } of details.cycles) {
    const [name, style] = CAUSES[cause] ?? [cause, "c-core"];
    const group = groups.get(style) ?? { cycles: 0, names: [] };
    group.cycles += cycles_per_instruction;
    if (cycles_per_instruction > 0.005 * all) group.names.push(name);
    groups.set(style, group);
  }
  const shares = [...groups].filter(([, group]) => group.cycles > 0.001 * all);
  return (
    <figure class="plotted">
      <figcaption>Where its cycles go: {fixed(all, 2)} cycles an instruction</figcaption>
      <div class="stack" aria-hidden="true">
        {shares.map(([style, group]) => (
          <span key={style} class={style} style={{ width: `${(100 * group.cycles) / all}%` }} />
        ))}
      </div>
      <ul class="stack-legend">
        {shares.map(([style, group]) => (
          <li key={style}>
            <span class={`dot ${style}`} aria-hidden="true" />
            {group.names.join(", ") || "other"} <strong>{Math.round((100 * group.cycles) / all)} %</strong>
          </li>
        ))}
      </ul>
      <p class="note">Each cycle counts for one cause. The answer's share of waiting for memory is of all that a slower memory would stretch, and can differ from the sum here.</p>
    </figure>
  );
}

/** A line of values as they came, the newest on the right; its height is that of the largest, and of `least` at least. */
export function Sparkline({ values, least, label }: { values: (number | null)[]; least: number; label: string }) {
  const known = values.filter((one): one is number => one !== null);
  if (known.length === 0) return <span class="note">not measured</span>;
  const most = Math.max(...known);
  const top = Math.max(most, least);
  const points = values
    .map((value, place) => (value === null ? null : `${(place * 100) / Math.max(values.length - 1, 1)},${22 - (20 * value) / top}`))
    .filter(Boolean)
    .join(" ");
  return (
    <svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img"
      aria-label={`${label}: now ${fixed(known[known.length - 1], 2)}, at most ${fixed(most, 2)}`}>
      <polyline points={points} />
    </svg>
  );
}

/** A figure over the time of two recordings, from the beginning of each. */
export function BeforeAfter({ title, text, before, after, seconds }: {
  title: string;
  text: (value: number) => string;
  before: (number | null)[];
  after: (number | null)[];
  seconds: [number, number];
}) {
  const [drawn, wide] = useDrawnWidth(WIDTH);
  const known = [...before, ...after].filter((one): one is number => one !== null);
  const top = Math.max(...known, 1e-9) * 1.08;
  const longest = Math.max(...seconds, 1e-9);
  const left = 74;
  const x = (at: number) => left + (at / longest) * (wide - left - 10);
  const y = (value: number) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
  /** Stretches of known parts: a line has a gap where nothing is known. */
  const lines = (parts: (number | null)[], all: number) => {
    const found: string[][] = [[]];
    parts.forEach((value, part) => {
      if (value === null) found.push([]);
      else found[found.length - 1].push(`${x(((part + 0.5) * all) / parts.length).toFixed(1)},${y(value).toFixed(1)}`);
    });
    return found.filter((points) => points.length > 0).map((points) => (points.length === 1 ? [points[0], points[0]] : points).join(" "));
  };
  const words = ([name, parts]: readonly [string, (number | null)[]]) => {
    const values = parts.filter((one): one is number => one !== null);
    return values.length === 0 ? `${name} not known` : `${name} ${text(Math.min(...values))} to ${text(Math.max(...values))}`;
  };
  return (
    <figure class="plotted">
      <figcaption>{title}</figcaption>
      <svg ref={drawn} height={HEIGHT} viewBox={`0 0 ${wide} ${HEIGHT}`} role="img" aria-label={`${title}: ${([["before", before], ["after", after]] as const).map(words).join("; ")}`}>
        {ticks(top).map((value) => (
          <g key={value}>
            <line class="grid" x1={left} x2={wide - 10} y1={y(value)} y2={y(value)} />
            <text class="tick" x={left - 5} y={y(value) + 4} text-anchor="end">{text(value)}</text>
          </g>
        ))}
        {[0, 0.5, 1].map((part) => (
          <text key={part} class="tick" x={x(part * longest)} y={HEIGHT - BOTTOM + 13} text-anchor={part === 0 ? "start" : part === 1 ? "end" : "middle"}>
            {(part * longest).toFixed(longest < 10 ? 1 : 0)} s
          </text>
        ))}
        {lines(before, seconds[0]).map((points) => <polyline key={points} class="curve before" points={points} />)}
        {lines(after, seconds[1]).map((points) => <polyline key={points} class="curve" points={points} />)}
      </svg>
    </figure>
  );
}

export interface Dot {
  name: string;
  x: number;
  y: number;
  style: string;
}

/** Between two points of a frontier the best that is known is the corner: the lower throughput, the higher unfairness. */
const steps_of = (points: [number, number][]) =>
  points.map(([x, y], at) => (at === 0 ? `M${x} ${y}` : `V${y}H${x}`)).join("");

/** What the steps and their points cover. */
const covered_by = (points: [number, number][]): Box[] =>
  points.flatMap(([x, y], at) => {
    if (at === 0) return [around(x, y, 3)];
    const [x0, y0] = points[at - 1];
    return [
      around(x, y, 3),
      { left: x0 - 2, right: x0 + 2, top: Math.min(y0, y), bottom: Math.max(y0, y) },
      { left: Math.min(x0, x), right: Math.max(x0, x), top: y - 2, bottom: y + 2 },
    ];
  });

/** STP against unfairness: good is down and to the right. */
export function Scatter({ dots, frontier, chosen, choose }: {
  dots: Dot[];
  frontier: { stp: number; unfairness: number }[];
  chosen: string;
  choose: (name: string) => void;
}) {
  const [drawn, wide] = useDrawnWidth(520);
  const narrow = wide < 400;
  const high = 300;
  const range = (values: number[]) => {
    const low = Math.min(...values);
    const top = Math.max(...values);
    const room = Math.max((top - low) * 0.12, 0.02);
    return [low - room, top + room];
  };
  const [left, right] = range([...dots.map((dot) => dot.x), ...frontier.map((one) => one.stp)]);
  const [low, top] = range([...dots.map((dot) => dot.y), ...frontier.map((one) => one.unfairness)]);
  const x = (value: number) => 50 + ((value - left) / (right - left)) * (wide - 65);
  const y = (value: number) => high - 38 - ((value - low) / (top - low)) * (high - 66);
  // A bound lies above a policy that does as well.
  const ordered = [...dots.filter((dot) => dot.style === "policy"), ...dots.filter((dot) => dot.style !== "policy")];
  const steps = frontier.map((one): [number, number] => [x(one.stp), y(one.unfairness)]);
  const named = ordered.filter((dot) => dot.name === chosen || dot.style !== "policy");
  const names = labels(
    named.map((dot) => ({ name: dot.name, x: x(dot.x), y: y(dot.y) })),
    [...covered_by(steps), ...ordered.map((dot) => around(x(dot.x), y(dot.y), 7))],
    { left: 46, top: 14, right: wide, bottom: high - 36 },
  );
  return (
    <svg ref={drawn} class="scatter" height={high} viewBox={`0 0 ${wide} ${high}`} role="group"
      aria-label="Policies by throughput (STP, across) and unfairness (upwards); lower right is best">
      {roundTicks(low, top).map((value) => (
        <g key={value} aria-hidden="true">
          <line class="grid" x1={50} x2={wide - 15} y1={y(value)} y2={y(value)} />
          <text class="tick" x={44} y={y(value) + 4} text-anchor="end">{value.toFixed(2)}</text>
        </g>
      ))}
      {roundTicks(left, right).map((value) => (
        <text key={value} aria-hidden="true" class="tick" x={x(value)} y={high - 22} text-anchor="middle">{value.toFixed(2)}</text>
      ))}
      <text class="tick" x={wide - 15} y={high - 5} text-anchor="end">STP{narrow ? "" : ", the sum of 1 / slowdown"}: more is better</text>
      <text class="tick" x={narrow ? 0 : 50} y={11}>unfairness{narrow ? "" : ", largest / smallest slowdown"}: less is better</text>
      {frontier.length > 0 && (
        <g role="img" aria-label={`The best placements, from the fairest with STP ${frontier[0].stp.toFixed(2)} and unfairness ${frontier[0].unfairness.toFixed(2)} to the fastest with ${frontier[frontier.length - 1].stp.toFixed(2)} and ${frontier[frontier.length - 1].unfairness.toFixed(2)}`}>
          <path class="frontier" d={steps_of(steps)} />
          {steps.map(([across, down], at) => <circle key={at} class="frontier-point" cx={across} cy={down} r="2.5" />)}
        </g>
      )}
      {ordered.map((dot) => (
        <g key={dot.name} class={`dot-of ${dot.style} ${dot.name === chosen ? "chosen" : ""}`} role="button" tabIndex={0}
          aria-pressed={dot.name === chosen}
          onClick={() => choose(dot.name)}
          onKeyDown={(event) => {
            if (event.key === "Enter" || event.key === " ") {
              event.preventDefault();
              choose(dot.name);
            }
          }}>
          <title>{`${dot.name}: STP ${dot.x.toFixed(3)}, unfairness ${dot.y.toFixed(3)}`}</title>
          {dot.style === "optimal" ? (
            <path d={`M${x(dot.x)} ${y(dot.y) - 8}l7 8-7 8-7-8z`} />
          ) : dot.style === "worst" ? (
            <path d={`M${x(dot.x) - 6} ${y(dot.y) - 6}h12v12h-12z`} />
          ) : (
            <circle cx={x(dot.x)} cy={y(dot.y)} r="6" />
          )}
          {names.filter((label) => label.name === dot.name).map((label) => (
            <text key={label.name} x={label.x} y={label.y} text-anchor={label.anchor}>{label.name}</text>
          ))}
        </g>
      ))}
    </svg>
  );
}

/** The effect after each pair of blocks, with its interval. */
export function EffectPlot({ pairs }: { pairs: AbPair[] }) {
  const [drawn, wide] = useDrawnWidth(640);
  const high = 190;
  const left = 62;
  const known = pairs.filter((one) => one.overall.percent !== null);
  if (known.length === 0) return null;
  // Early intervals are as wide as can be: the later half says how much is drawn.
  const late = known.slice(Math.floor(known.length / 2));
  const ends = late.flatMap((one) => [one.overall.percent!, one.overall.low_percent ?? 0, one.overall.high_percent ?? 0]);
  const top = Math.max(...ends.map(Math.abs), 1) * 1.15;
  const first = known[0].pairs;
  const last = Math.max(known[known.length - 1].pairs, first + 1);
  const x = (at: number) => left + ((at - first) / (last - first)) * (wide - left - 14);
  const y = (percent: number) => 12 + ((top - Math.max(-top, Math.min(top, percent))) / (2 * top)) * (high - 40);
  const sure = known.filter((one) => one.overall.low_percent !== null && one.overall.high_percent !== null);
  const band = [...sure.map((one) => [one.pairs, one.overall.high_percent!]), ...[...sure].reverse().map((one) => [one.pairs, one.overall.low_percent!])];
  const points = (all: number[][]) => all.map(([at, percent]) => `${x(at).toFixed(1)},${y(percent).toFixed(1)}`).join(" ");
  const newest = known[known.length - 1].overall;
  return (
    <svg ref={drawn} class="effect" height={high} viewBox={`0 0 ${wide} ${high}`} role="img"
      aria-label={`The effect after each pair of blocks; after ${last} pairs ${newest.percent!.toFixed(1)} %, from ${fixed(newest.low_percent, 1)} to ${fixed(newest.high_percent, 1)} %`}>
      {[-1, -0.5, 0, 0.5, 1].map((part) => (
        <g key={part}>
          <line class={part === 0 ? "zero" : "grid"} x1={left} x2={wide - 14} y1={y(part * top)} y2={y(part * top)} />
          <text class="tick" x={left - 6} y={y(part * top) + 4} text-anchor="end">{(part * top).toFixed(1).replace("-", "−")} %</text>
        </g>
      ))}
      <polygon class="band" points={points(band)} />
      <polyline class="curve" points={points(known.map((one) => [one.pairs, one.overall.percent!]))} />
      <text class="tick" x={left} y={high - 6}>pair {first}</text>
      <text class="tick" x={wide - 14} y={high - 6} text-anchor="end">pair {last}</text>
    </svg>
  );
}
