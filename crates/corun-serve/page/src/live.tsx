// The view of what runs on this machine now.

import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Drawing, Look } from "./api";
import { counted, cpusOf, fixed, share, shown, size, traffic } from "./figures";
import { givenColours } from "./colours";
import { Act } from "./act";
import { Experiment } from "./experiment";
import { Notice } from "./notice";
import { Sparkline } from "./plots";
import { follow } from "./stream";
import { Slides, Tree } from "./tree";

/** Looks of which figures are kept. */
const KEPT = 120;
/** Programs that the table shows until all are asked for, the busiest. */
const BUSIEST = 20;
/** Threads that are named on a CPU. */
const NAMED = 6;
/** Most threads of which each slides from CPU to CPU. */
const SLIDING = 256;

/** Threads waiting for a CPU from which on they stand out. */
const WAITS = 0.1;
/** CPUs, below which hardly one is idle. */
const IDLE = 0.5;

type Series = Map<string, { busy: (number | null)[]; mpki: (number | null)[]; bytes: (number | null)[] }>;

export function Live({ drawing, experiment }: { drawing: Drawing | null; experiment: boolean }) {
  const [look, setLook] = useState<Look | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  const [held, setHeld] = useState(false);
  const series = useRef<Series>(new Map());
  const holding = useRef(false);
  holding.current = held;

  useEffect(() => {
    if (!drawing) return;
    return follow<Look & { error?: string; away?: string }>(
      "/api/v1/live",
      (found) => {
        if (found.error !== undefined) {
          setFault(`corun no longer looks: ${found.error}`);
          return false;
        }
        // A daemon that is away may come back: the stream stays open.
        if (found.away !== undefined) {
          setFault(found.away);
          return true;
        }
        setFault(null);
        keep(series.current, found);
        if (!holding.current) setLook(found);
        return true;
      },
      () => setFault("The server does not answer; what was seen last stays. Trying again…"),
    );
  }, [drawing]);

  if (!drawing && experiment) return <div class="live"><Experiment /></div>;
  if (!drawing) {
    return (
      <div class="empty">
        <p>This machine cannot be looked at; where <code>corun serve</code> was started it says why.</p>
      </div>
    );
  }
  return (
    <div class="live">
      {experiment && <Experiment />}
      {fault && <Notice of={fault} />}
      {!look && !fault && <p class="empty" role="status">Waiting for the first look…</p>}
      {look && <Now look={look} drawing={drawing} series={series.current} held={held} hold={() => setHeld(!held)} />}
    </div>
  );
}

/** How the policy decides. */
const manner = (look: Look) => {
  if (look.act) return "says what it would do.";
  return look.daemon?.applies ? "is in force: what it decides is done." : "decides as if it were in charge; nothing is changed.";
};

function keep(series: Series, look: Look) {
  const here = new Set(look.programs.map((one) => one.program));
  for (const name of series.keys()) if (!here.has(name)) series.delete(name);
  for (const one of look.programs) {
    let known = series.get(one.program);
    if (!known) series.set(one.program, (known = { busy: [], mpki: [], bytes: [] }));
    const add = (values: (number | null)[], value: number | null) => {
      values.push(value);
      if (values.length > KEPT) values.shift();
    };
    add(known.busy, one.cpus_busy);
    add(known.mpki, one.llc_mpki);
    add(known.bytes, one.memory_bytes_per_s);
  }
}

function Now({ look, drawing, series, held, hold }: { look: Look; drawing: Drawing; series: Series; held: boolean; hold: () => void }) {
  const root = useRef<HTMLDivElement>(null);
  const slides = useMemo(() => new Slides(), []);
  const slide = look.threads.length <= SLIDING;
  useLayoutEffect(() => slides.run(root.current, slide), [look]);
  const colours = useMemo(() => new Map<string, number>(), []);
  givenColours(colours, look.programs.map((one) => one.program));
  const onCpu = new Map<number, Look["threads"]>();
  for (const thread of look.threads) {
    if (thread.cpu === null) continue;
    const here = onCpu.get(thread.cpu);
    if (here) here.push(thread);
    else onCpu.set(thread.cpu, [thread]);
  }
  // Looks name the busiest first; a thread that stays where it is keeps its place. Of more than are named, those that run
  // or are ready are.
  const runs = (one: Look["threads"][number]) => Number(one.state === "running");
  for (const here of onCpu.values()) here.sort((one, other) => (here.length > NAMED ? runs(other) - runs(one) : 0) || one.tid - other.tid);
  const most = Math.max(...look.llcs.map((one) => one.memory_bytes_per_s ?? one.cpus_busy ?? 0), 1e-9);
  const by = look.llcs.some((one) => one.memory_bytes_per_s !== null) ? "memory traffic its threads have" : "CPUs its threads keep busy";
  const decisions = [...look.decisions].reverse();
  const [all, setAll] = useState(false);
  const programs = all ? look.programs : look.programs.slice(0, BUSIEST);
  const left = look.programs.length - BUSIEST;
  return (
    <div ref={root}>
      <div class="compare-head">
        <p class="how">
          {counted(look.threads.length, "thread")} on this machine, looked at for {look.time_s.toFixed(0)} s.{" "}
          {look.daemon && <>Seen by the daemon (process {look.daemon.pid}). </>}
          {look.policy ? <>Policy <strong>{shown(look.policy)}</strong> {manner(look)}</> : !look.act && "Nothing is changed."}{" "}
          {look.act && "What you ask for and confirm is done."}
        </p>
        <button type="button" aria-pressed={held} onClick={hold}>{held ? "Go on" : "Pause the view"}</button>
      </div>
      {look.daemon?.no_plan && <p class="lead no-plan">The daemon says that {look.daemon.no_plan.what}: {look.daemon.no_plan.why}. What one can do: {look.daemon.no_plan.help}.</p>}
      {look.notes.map((note) => <p class="notice" key={note}>{shown(note)}</p>)}
      {look.not_measured.length > 0 && <p class="note">Not measured here: {look.not_measured.join(", ")} (corun doctor says why{look.daemon && "; a daemon counts what its policy goes by, corun top all that can be"}).</p>}
      <div class="columns">
        <section class="card machine-card" aria-labelledby="live-machine">
          <h2 id="live-machine">This machine <span class="note">{shown(drawing.title)}</span></h2>
          <p class="how">
            Each numbered place is a CPU with the threads that were last on it: bold ones run or are ready to.{look.policy && " → leads to where the policy would hold a thread."} Threads in one box share its last-level
            cache (LLC).{drawing.llcs.length > 1 && ` The stronger a box's frame, the more ${by}.`}
          </p>
          <Tree
            drawing={drawing}
            heat={(llc) => {
              if (drawing.llcs.length === 1) return "";
              const one = look.llcs.find((each) => each.llc === llc);
              const share = (one?.memory_bytes_per_s ?? one?.cpus_busy ?? 0) / most;
              return share > 0.66 ? "warm2" : share > 0.33 ? "warm1" : "";
            }}
            cache={(llc) => {
              const one = look.llcs.find((each) => each.llc === llc);
              if (!one) return null;
              return (
                <p class="note llc-figures">
                  {counted(one.threads, "thread")}{one.memory_bytes_per_s !== null && `, ${traffic(one.memory_bytes_per_s / 1e6)}`}
                  {one.llc_mpki !== null && `, ${fixed(one.llc_mpki, 1)} MPKI`}
                  {one.llc_occupancy_bytes !== null && `, ${size(one.llc_occupancy_bytes)} held`}
                </p>
              );
            }}
            slot={(cpu) => <LiveSlot key={cpu} cpu={cpu} threads={onCpu.get(cpu) ?? NOBODY} slide={slide} colours={colours} />}
          />
        </section>
        <div class="stacked">
          <section class="card" aria-labelledby="live-programs">
            <h2 id="live-programs">Programs</h2>
            <Waits look={look} drawing={drawing} />
            <div class="scroll" tabIndex={0} role="region" aria-label="Programs that are observed">
              <table class="live-programs">
                <thead><tr><th scope="col">program</th><th scope="col">CPUs busy</th><th scope="col">waiting</th><th scope="col">MPKI</th><th scope="col">memory traffic</th></tr></thead>
                <tbody>
                  {programs.map((one) => {
                    const kept = series.get(one.program);
                    const name = shown(one.program);
                    return (
                      <tr key={one.program}>
                        <th scope="row"><span class={`dot l${(colours.get(one.program) ?? 0) % 8}`} aria-hidden="true" />{name} <span class="note">{one.threads} thr.</span></th>
                        <td><Sparkline values={kept?.busy ?? []} least={0.1} label={`CPUs busy with ${name}`} /> {fixed(one.cpus_busy, 2)}</td>
                        <td title={`Threads of ${name} that are ready and have no CPU, on average`} class={(one.threads_waiting ?? 0) >= WAITS ? "waits" : ""}>{fixed(one.threads_waiting, 2)}</td>
                        <td>{one.llc_mpki === null ? "–" : <><Sparkline values={kept?.mpki ?? []} least={1} label={`Misses of ${name}`} /> {fixed(one.llc_mpki, 1)}</>}</td>
                        <td>{one.memory_bytes_per_s === null ? "–" : <><Sparkline values={kept?.bytes ?? []} least={1e7} label={`Memory traffic of ${name}`} /> {traffic(one.memory_bytes_per_s / 1e6)}</>}</td>
                      </tr>
                    );
                  })}
                </tbody>
              </table>
            </div>
            {left > 0 && (
              <button type="button" class="link" aria-expanded={all} onClick={() => setAll(!all)}>{all ? `Show the ${BUSIEST} busiest programs alone` : `Show ${counted(left, "less busy program")} too`}</button>
            )}
            <Others look={look} />
            <p class="note">CPUs busy and waiting are since the look before. Waiting: threads that are ready and have no CPU. MPKI: LLC misses per 1000 instructions.</p>
          </section>
          <Act look={look} />
          <section class="card" aria-labelledby="live-decisions">
            <h2 id="live-decisions">Decisions</h2>
            {decisions.length === 0 ? (
              <p class="note">{look.act ? "The policy's plan stands above." : look.policy ? "None yet." : "No policy was asked: corun serve --policy NAME .."}</p>
            ) : (
              <ol class="decisions" tabIndex={0} aria-label="Decisions, the newest first">
                {decisions.slice(0, 50).map((one, place) => (
                  <li key={`${one.at_s}.${place}`}>
                    <strong>{shown(one.policy)} {one.verdict === "refused" ? "cannot" : look.daemon?.applies ? "does" : "would"}: {shown(one.action)}</strong>
                    <span class="reason-words">{one.at_s.toFixed(1)} s. {shown(one.reason)}</span>
                  </li>
                ))}
              </ol>
            )}
          </section>
        </div>
      </div>
    </div>
  );
}

/** Who waits for a CPU most, beside whom, and which CPUs have none of the table's threads: what is to be done about it
 * is plain then. Nothing where nobody waits. */
function Waits({ look, drawing }: { look: Look; drawing: Drawing }) {
  const waiting = look.programs.filter((one) => (one.threads_waiting ?? 0) >= WAITS);
  const worst = waiting.reduce<Look["programs"][number] | null>((most, one) => (most && most.threads_waiting! >= one.threads_waiting! ? most : one), null);
  if (!worst) return null;
  const wanted = worst.threads_waiting! + (worst.cpus_busy ?? 0);
  const own = new Set(look.threads.filter((one) => one.program === worst.program && one.cpu !== null).map((one) => one.cpu!));
  const beside = new Set(look.threads.filter((one) => one.program !== worst.program && one.cpu !== null && own.has(one.cpu)).map((one) => shown(one.program)));
  const taken = new Set(look.threads.map((one) => one.cpu));
  const without = drawing.cpus.map((cpu) => cpu.id).filter((cpu) => !taken.has(cpu));
  const several = (cpus: number[]) => `${cpus.length === 1 ? "CPU" : "CPUs"} ${cpus.slice(0, NAMED).join(", ")}${cpus.length > NAMED ? ` and ${cpus.length - NAMED} more` : ""}`;
  return (
    <p class="lead waits-most">
      <strong>{shown(worst.program)}</strong> waits for a CPU in <strong>{share(worst.threads_waiting! / wanted)}</strong> of the time in which it could run: it is on {several([...own].sort((one, other) => one - other))}
      {beside.size > 0 && <>, beside {[...beside].slice(0, 3).join(", ")}{beside.size > 3 && ` and ${beside.size - 3} more`}</>}.
      {without.length > 0 && <> None of these threads is on {several(without)}{leavesHardlyAny(look) && ", but what is not in this table leaves hardly a CPU idle"}.</>}
    </p>
  );
}

/** Would a thread that moves to another CPU wait there too, for what is not in the table? */
function leavesHardlyAny({ others, programs }: Look) {
  if (!others) return false;
  const own = programs.reduce((sum, one) => sum + (one.cpus_busy ?? 0), 0);
  return others.cpus - others.cpus_busy - others.cpus_stolen - own < IDLE && others.cpus_busy + others.cpus_stolen > IDLE;
}

/** Who takes CPUs and is not in the table: where threads wait and the table's programs are hardly busy, that is why. */
function Others({ look: { others } }: { look: Look }) {
  if (!others) return null;
  return (
    <p class="others">
      What is not in this table keeps <strong>{fixed(others.cpus_busy, 2)}</strong> of {counted(others.cpus, "CPU")} busy
      {others.cpus_stolen >= WAITS && <>, and the host of this virtual machine takes <strong>{fixed(others.cpus_stolen, 2)}</strong></>}.
    </p>
  );
}

const NOBODY: Look["threads"] = [];

const LiveSlot = memo(
  function LiveSlot({ cpu, threads, slide, colours }: SlotProps) {
    return (
      <div class="slot live-slot" data-cpu={cpu}>
        <span class="cpu-name">{cpu}</span>
        <span class="threads-here">
          {threads.slice(0, NAMED).map((one, place) => (
            // What does not slide is the same element with another text: far less work for the browser.
            <span key={slide ? one.tid : place} class={one.state === "running" ? "thread running" : "thread"} data-moves={slide ? `t${one.tid}` : undefined}
              title={`${shown(one.program)}, thread ${one.tid} (${shown(one.name)}), ${one.state}` + (one.would_be_allowed_cpus ? `; would be held to ${cpusOf(one.would_be_allowed_cpus)}` : "")}>
              <span class={`dot l${(colours.get(one.program) ?? 0) % 8}`} aria-hidden="true" />
              <span class="chip-name">{shown(one.program)}</span>
              {one.would_be_allowed_cpus && <span class="would">→ {one.would_be_allowed_cpus}</span>}
            </span>
          ))}
          {threads.length > NAMED && <span class="note">and {threads.length - NAMED} more</span>}
        </span>
      </div>
    );
  },
  (before, after) => before.slide === after.slide && alike(before.threads, after.threads),
);

interface SlotProps {
  cpu: number;
  threads: Look["threads"];
  slide: boolean;
  colours: Map<string, number>;
}

/** Is the same drawn of a slot's threads? */
const alike = (before: Look["threads"], after: Look["threads"]) =>
  before.length === after.length &&
  before.every((one, place) => {
    const other = after[place];
    return one.tid === other.tid && one.program === other.program && one.state === other.state && one.would_be_allowed_cpus === other.would_be_allowed_cpus;
  });
