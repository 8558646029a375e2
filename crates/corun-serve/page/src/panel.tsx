// One program from near: why it is slow, who does it, where it would be better off.

import { memo } from "preact/compat";
import type { Details, Explained, Move } from "./api";
import { change, fixed, share, shown, size, times, traffic } from "./figures";
import type { Layout, Machine } from "./layout";
import { CpiStack, MissCurve } from "./plots";

export interface Props {
  explained: Explained;
  details: Details | null;
  program: number;
  machine: Machine;
  layout: Layout;
  move: (cpu: number) => void;
  choose: (program: number) => void;
  /** Is nothing being dragged? */
  still: boolean;
}

/** The parts of a slowdown, the largest first, each in a sentence. */
export function reasons({ explained, program, machine, layout }: Props): { name: string; clause: string; factor: number; words: string }[] {
  const because = explained.because[program];
  const figures = explained.placement.programs[program];
  const llc = explained.placement.llc[program];
  const cache = machine.drawing.llcs[llc].size_bytes;
  const mates = machine.under(layout, llc).filter((one) => one !== program).length;
  const own = machine.byId.get(layout.cpu[program]);
  const drawn = (own?.memory_path ?? []).map((domain) => explained.traffic[domain]).reduce<string>((text, one) => {
    const full = one.mb_per_s / one.peak_mb_per_s;
    return full > 0.5 ? `${text}${text ? ", " : ""}${one.name} is ${share(full)} full` : text;
  }, "");
  const held = `${size(figures.llc_occupancy_bytes)}${cache === null ? "" : ` of ${size(cache)}`}`;
  return [
    {
      name: "Less cache",
      clause: "others take its cache",
      factor: because.cache,
      words: mates ? `It holds ${held}; ${mates === 1 ? "one other program fills" : `${mates} other programs fill`} LLC ${llc} too.` : `It holds ${held}.`,
    },
    {
      name: "Memory traffic",
      clause: "memory is busy",
      factor: because.memory,
      words: `It waits for memory behind the others' traffic${drawn ? `: ${drawn}` : ""}.`,
    },
    {
      name: "Shared core",
      clause: "it shares its core",
      factor: because.hardware_threads,
      words: "Another program runs on the same core.",
    },
    {
      name: "Slower core",
      clause: "its core is a slow one",
      factor: because.core,
      words: `Its core${own && machine.drawing.core_types.length > 1 ? ` (${machine.drawing.core_types[own.core_type]})` : ""} is slower than the fastest one here.`,
    },
  ].sort((one, other) => other.factor - one.factor);
}

function where(entry: Move, props: Props): string {
  const at = props.machine.byId.get(entry.cpu);
  const llc = at?.llc ?? 0;
  const others = props.machine.under(props.layout, llc).filter((one) => one !== props.program && one !== entry.with);
  const names = others.map((one) => shown(props.explained.placement.apps[one]));
  const beside = names.length === 0 ? "alone there" : `beside ${names.slice(0, 3).join(", ")}${names.length > 3 ? ` and ${names.length - 3} more` : ""}`;
  const swap = entry.with === null ? "" : `, changing places with ${shown(props.explained.placement.apps[entry.with])}`;
  return `CPU ${entry.cpu} under LLC ${llc}, ${beside}${swap}`;
}

export function Panel(props: Props) {
  const { explained, details, program, move, choose } = props;
  const { placement } = explained;
  const name = shown(placement.apps[program]);
  const figures = placement.programs[program];
  const slowdown = placement.slowdown[program];
  const parts = reasons(props);
  const most = Math.max(...parts.map((one) => one.factor - 1), 0.25);
  const antt = placement.antt ?? 1;
  const better = details?.moves.filter((one) => one.antt < antt - 0.0005).slice(0, 3) ?? [];
  const selfish = details?.moves.reduce<Move | null>((best, one) => (best && best.slowdown <= one.slowdown ? best : one), null);
  const culprits = details?.slowed_by?.filter((one) => one.factor > 1.005).slice(0, 4) ?? [];
  return (
    <section class="card panel" aria-labelledby="panel-title">
      <h2 id="panel-title">
        {name} <span class="note">CPU {placement.cpu[program]}, LLC {placement.llc[program]}</span>
      </h2>
      <h3>Why</h3>
      <ul class="reasons">
        {parts.map((one) => (
          <li key={one.name} class={one.factor < 1.005 ? "none" : ""}>
            <span class="reason-name">{one.name}</span>
            <span class="track" aria-hidden="true">
              <span class="fill" style={{ width: `${Math.min(100, (100 * Math.max(0, one.factor - 1)) / most)}%` }} />
            </span>
            <strong>×{times(one.factor)}</strong>
            {one.factor >= 1.005 && <span class="reason-words">{one.words}</span>}
          </li>
        ))}
      </ul>
      <p class="note">The factors multiply to the slowdown.</p>
      {culprits.length > 0 && (
        <>
          <h3>Who slows it down</h3>
          <ul class="culprits">
            {culprits.map((one) => (
              <li key={one.program}>
                <button type="button" class="link" onClick={() => choose(one.program)}>
                  {shown(placement.apps[one.program])}
                </button>{" "}
                on CPU {placement.cpu[one.program]}: without it, {name} would take {share(1 - 1 / one.factor)} less time.
              </li>
            ))}
          </ul>
          {culprits.length > 1 && <p class="note">Each as if that one alone were gone: these shares do not add up.</p>}
        </>
      )}
      <h3>Where to put it</h3>
      {better.length > 0 ? (
        <ol class="moves-list">
          {better.map((one) => (
            <li key={one.cpu}>
              <button type="button" class="move" data-move-to={one.cpu} onClick={() => move(one.cpu)}>
                Move to CPU {one.cpu}
              </button>
              <span>
                {where(one, props)}: it takes {times(one.slowdown)} times as long, all programs {times(one.antt)} in the
                mean (<strong>{change(one.antt, antt)}</strong>).
              </span>
            </li>
          ))}
        </ol>
      ) : (
        <p>{details ? "No move of this program alone lowers the mean slowdown." : "Looking…"}</p>
      )}
      {selfish && selfish.slowdown < slowdown - 0.005 && !better.some((one) => one.cpu === selfish.cpu) && (
        <p class="note">
          For itself it is best on CPU {selfish.cpu}: {times(selfish.slowdown)}; all together {change(selfish.antt, antt)}.
        </p>
      )}
      <AnyCpu {...props} />
      <dl class="small-figures">
        <div><dt>Instructions per cycle (IPC)</dt><dd>{fixed(figures.ipc, 2)}</dd></div>
        <div><dt>LLC misses per 1000 instructions (MPKI)</dt><dd>{fixed(figures.llc_mpki, 2)}</dd></div>
        <div><dt>Memory traffic</dt><dd>{traffic(figures.bandwidth_mb_per_s)}</dd></div>
        <div><dt>LLC held</dt><dd>{size(figures.llc_occupancy_bytes)}</dd></div>
      </dl>
      {details && details.by_ways.length > 0 && (
        <>
          <MissCurve details={details} held={figures.llc_occupancy_bytes} mpki={figures.llc_mpki} />
          <CpiStack details={details} />
        </>
      )}
    </section>
  );
}

/** The list of all CPUs; while something is dragged, it stays as it is. */
const AnyCpu = memo(
  function AnyCpu({ explained: { placement }, program, machine, layout, move }: Props) {
    const programAt = new Map(layout.cpu.map((cpu, one) => [cpu, one]));
    return (
      <label class="field">
        Any CPU
        <select value={placement.cpu[program]} onChange={(event) => move(Number(event.currentTarget.value))}>
          {machine.drawing.cpus.map((cpu) => {
            const who = programAt.get(cpu.id);
            const what = who === undefined ? "free" : who === program ? "now" : shown(placement.apps[who]);
            return (
              <option key={cpu.id} value={cpu.id}>
                CPU {cpu.id} (LLC {cpu.llc}): {what}
              </option>
            );
          })}
        </select>
      </label>
    );
  },
  (_, after) => !after.still,
);
