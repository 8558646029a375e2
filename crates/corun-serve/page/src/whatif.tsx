// The view in which programs are moved.

import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Answer } from "./answer";
import { ask, Newest, type Details, type Drawing, type Explained, type PolicyEntry } from "./api";
import { Cache } from "./cache";
import { change as changed, fixed, heat, shown, size, times, traffic } from "./figures";
import { PolicyList } from "./goes-by";
import { Machine, type Layout } from "./layout";
import { Notice } from "./notice";
import { Panel } from "./panel";
import { question, type State } from "./state";
import { MemoryBars, Slides, Tree } from "./tree";

/** Seconds that the searches for the best and the worst may take before they say what they have. */
const SEARCH_S = 5;

/** Programs that are listed without being asked for. */
const LISTED = 64;

/** Pixels that a pointer moves before a press is a drag. */
const DRAG_AFTER = 6;

interface Props {
  state: State;
  change: (next: Partial<State>, quietly?: boolean, apps?: string[]) => void;
  drawing: Drawing;
  policies: PolicyEntry[];
  failed: (error: unknown) => void;
}

/** A placement and its figures, which belong together: what is drawn is always one of these. */
interface Shown {
  layout: Layout;
  explained: Explained;
}

interface Bounds {
  best: Explained | null;
  worst: Explained | null;
  fault: unknown;
}

export function WhatIf({ state, change, drawing, policies, failed }: Props) {
  const machine = useMemo(() => new Machine(drawing), [drawing]);
  const [settled, setSettled] = useState<Shown | null>(null);
  const [tried, setTried] = useState<Shown | null>(null);
  const [bounds, setBounds] = useState<Bounds>({ best: null, worst: null, fault: null });
  const [busy, setBusy] = useState<string | null>(null);
  const [policyFault, setPolicyFault] = useState<unknown>(null);
  const [placementFault, setPlacementFault] = useState<unknown>(null);
  // Was the question refused? What is wrong with it stands where it was asked.
  const [refused, setRefused] = useState(false);
  const asked = useMemo(() => question(state), [state.machine, state.apps, state.profiles]);
  const committed: Layout | null = useMemo(
    () => (state.cpu ? { cpu: state.cpu, mask: state.mask } : null),
    [state.cpu, state.mask],
  );

  // The figures of the placement.
  useEffect(() => {
    const stop = new AbortController();
    setPlacementFault(null);
    setRefused(false);
    if (asked.apps.length === 0) {
      setSettled(null);
      failed(null);
      return;
    }
    ask<Explained>("predict", { question: asked, cpu: committed?.cpu, mask: committed?.mask ?? undefined }, stop.signal)
      .then((found) => {
        if (stop.signal.aborted) return;
        setSettled({ layout: committed ?? { cpu: found.placement.cpu, mask: null }, explained: found });
        setTried(null);
        failed(null);
        if (!committed) change({ cpu: found.placement.cpu }, true, asked.apps);
      })
      .catch((error) => {
        if (stop.signal.aborted) return;
        setTried(null);
        const ofPlacement = error.part === "placement";
        setPlacementFault(ofPlacement ? error : null);
        failed(ofPlacement ? null : error);
        setRefused(true);
      });
    return () => stop.abort();
  }, [asked, committed]);

  // The best and the worst.
  useEffect(() => {
    const stop = new AbortController();
    setBounds({ best: null, worst: null, fault: null });
    setPolicyFault(null);
    if (asked.apps.length === 0) return;
    const search = (policy: string) =>
      ask<Explained>("place", { question: asked, policy, time_limit_s: SEARCH_S }, stop.signal);
    (async () => {
      try {
        const best = await search("optimal");
        if (stop.signal.aborted) return;
        setBounds({ best, worst: null, fault: null });
        const worst = await search("worst");
        if (!stop.signal.aborted) setBounds({ best, worst, fault: null });
      } catch (error) {
        if (!stop.signal.aborted) setBounds({ best: null, worst: null, fault: error });
      }
    })();
    return () => stop.abort();
  }, [asked]);

  const drawn = tried ?? settled;
  const layout = drawn?.layout ?? null;
  const shownNow = drawn?.explained ?? null;
  const slowest = shownNow ? shownNow.placement.slowdown.reduce((best, one, place, all) => (one > all[best] ? place : best), 0) : null;
  const looked = state.selected !== null && state.selected < (shownNow?.placement.apps.length ?? 0) ? state.selected : slowest;

  // The program that is looked at, in the placement that is settled.
  const [details, setDetails] = useState<{ of: Shown; program: number; found: Details } | null>(null);
  const detail = useMemo(() => new Newest<typeof details>(setDetails, () => setDetails(null)), []);
  useEffect(() => {
    if (looked === null || !settled || settled.layout.cpu.length !== asked.apps.length) return;
    const { cpu, mask } = settled.layout;
    const wanted = { question: asked, cpu, mask: mask ?? undefined, program: looked };
    detail.ask(async () => ({ of: settled, program: looked, found: await ask<Details>("program", wanted) }));
  }, [looked, settled]);
  const near = details && details.of === drawn && details.program === looked ? details.found : null;

  const preview = useMemo(() => new Newest<Shown>(setTried, setPlacementFault), []);
  const tryOut = (next: Layout | null) => {
    if (!next) return setTried(null);
    preview.ask(async () => ({
      layout: next,
      explained: await ask<Explained>("predict", { question: asked, cpu: next.cpu, mask: next.mask ?? undefined }),
    }));
  };
  const commit = (next: Layout, selected: number | null = looked) => {
    preview.forget();
    change({ cpu: next.cpu, mask: next.mask?.some((one) => one !== null) ? next.mask : null, selected });
  };
  const moveTo = (program: number, cpu: number) => {
    if (committed) commit(machine.moved(committed, program, cpu), program);
  };

  // What a policy or a placement that is tried out answers is of no use once something else is asked about.
  const applying = useRef<AbortController | null>(null);
  useEffect(() => () => {
    applying.current?.abort();
    setBusy(null);
  }, [asked]);
  useEffect(() => () => preview.forget(), [asked, committed]);
  const apply = async (policy: string) => {
    const stop = new AbortController();
    applying.current = stop;
    setBusy(policy);
    setPolicyFault(null);
    try {
      const found = await ask<Explained>("place", { question: asked, policy, time_limit_s: 4 * SEARCH_S }, stop.signal);
      if (stop.signal.aborted) return;
      commit({ cpu: found.placement.cpu, mask: found.placement.mask ?? null }, state.selected);
    } catch (error) {
      if (stop.signal.aborted) return;
      setPolicyFault(error);
    }
    setBusy(null);
  };

  const drag = useDrag({ machine, committed, tryOut, commit, choose: (program) => change({ selected: program }, true) });

  // What moved slides there.
  const root = useRef<HTMLDivElement>(null);
  const slides = useMemo(() => new Slides(), []);
  // The program that the keyboard moves keeps the focus.
  const followed = useRef<{ program: number; cpu: number } | null>(null);
  const acts = useRef<Acts | null>(null);
  useLayoutEffect(() => {
    slides.run(root.current, drag.program === null);
    const moved = followed.current;
    if (moved && layout?.cpu[moved.program] === moved.cpu) {
      root.current?.querySelector<HTMLElement>(`[data-program="${moved.program}"]`)?.focus();
      followed.current = null;
    }
  }, [layout?.cpu]);

  if (state.apps.length === 0) return <p class="empty">Add programs to see what they do to each other.</p>;
  if (!layout || !shownNow) {
    return placementFault ? (
      <div class="empty">
        <Notice of={placementFault} />
        <button type="button" onClick={() => change({ cpu: null, mask: null })}>Place the programs anew</button>
      </div>
    ) : refused ? (
      <p class="empty">No figures for what is asked now: what is wrong with it stands above.</p>
    ) : (
      <p class="empty" aria-busy="true">Asking…</p>
    );
  }

  const antt = shownNow.placement.antt ?? 1;
  const gain = near ? gains(near.moves, machine, layout, antt) : null;
  const programAt = new Map(layout.cpu.map((cpu, program) => [cpu, program]));
  const lookedName = looked === null ? "" : shown(shownNow.placement.apps[looked]);
  acts.current = {
    press: drag.press,
    choose: (program) => change({ selected: program }, true),
    moveHere: (cpu) => looked !== null && moveTo(looked, cpu),
    step: (program, cpu, by) => {
      const ids = drawing.cpus.map((each) => each.id);
      const next = ids[(ids.indexOf(cpu) + by + ids.length) % ids.length];
      followed.current = { program, cpu: next };
      moveTo(program, next);
    },
  };
  const near_it = (program: number) => ({
    explained: shownNow, details: near, program, machine, layout, still: tried === null,
    move: (cpu: number) => moveTo(program, cpu), choose: (other: number) => change({ selected: other }, true),
  });
  const announced =
    looked === null
      ? ""
      : `${shown(shownNow.placement.apps[looked])} on CPU ${shownNow.placement.cpu[looked]}: slowdown ` +
        `${times(shownNow.placement.slowdown[looked])}; all programs ${times(antt)} in the mean`;
  return (
    <div class="what-if" ref={root}>
      <p class="visually-hidden" aria-live="polite">{announced}</p>
      <Summary explained={shownNow} bounds={bounds} />
      <Policies {...{ policies, busy, apply }} />
      <Notice of={policyFault} />
      <Notice of={placementFault} />
      <div class="columns">
        <section class="card machine-card" aria-labelledby="machine-title">
          <h2 id="machine-title">
            {shown(drawing.name)} <span class="note">{shown(drawing.title)}</span>
          </h2>
          <p class="how">
            Each numbered place is a CPU. Programs in one box share its last-level cache (LLC); the strip shows how much of it each
            holds. Beside a program stands how many times as long as alone it takes: the stronger the colour, the slower. Drag a
            program to another CPU, or select it and use the arrow keys or a free CPU, which shows how the move changes the mean
            slowdown.
          </p>
          <MemoryBars traffic={shownNow.traffic} drawing={drawing} />
          <Tree
            drawing={drawing}
            cache={(llc) => <Cache {...{ machine, llc, layout, tryOut, commit, looked }} explained={shownNow} />}
            slot={(cpu) => {
              const program = programAt.get(cpu) ?? -1;
              return (
                <Slot
                  key={cpu}
                  cpu={cpu}
                  program={program}
                  name={program < 0 ? "" : shown(shownNow.placement.apps[program])}
                  slowdown={program < 0 ? 0 : shownNow.placement.slowdown[program]}
                  looked={program >= 0 && program === looked}
                  target={tried !== null && program >= 0 && program === looked}
                  gain={gain?.get(cpu) ?? null}
                  lookedName={program < 0 ? lookedName : ""}
                  acts={acts}
                />
              );
            }}
          />
          {drawing.warnings.length > 0 && (
            <details><summary>Assumed of this machine</summary><ul class="plain">{drawing.warnings.map((one) => <li key={one}>{shown(one)}</li>)}</ul></details>
          )}
        </section>
        {looked !== null && (
          <div class="side">
            <Answer {...near_it(looked)} />
            <Panel {...near_it(looked)} />
          </div>
        )}
        <Table explained={shownNow} looked={looked} choose={(program) => change({ selected: program }, true)} />
      </div>
    </div>
  );
}

/** By CPU, by how much a move of the program that is looked at changes the mean slowdown. Free CPUs that differ in
 * nothing share an entry of the answer. */
function gains(moves: Details["moves"], machine: Machine, layout: Layout, antt: number): Map<number, string> {
  const busy = new Set(layout.cpu.map((cpu) => machine.byId.get(cpu)?.core));
  const alike = (id: number) => {
    const cpu = machine.byId.get(id)!;
    return busy.has(cpu.core) ? `core ${cpu.core}` : `${cpu.core_type} under ${cpu.llc}`;
  };
  const free = new Map(moves.filter((one) => one.with === null).map((one) => [alike(one.cpu), one]));
  const taken = new Set(layout.cpu);
  const found = new Map<number, string>();
  for (const { id } of machine.drawing.cpus) {
    const entry = taken.has(id) ? undefined : free.get(alike(id));
    if (entry) found.set(id, changed(entry.antt, antt));
  }
  return found;
}

/** What can be done at a slot. */
interface Acts {
  press: (program: number, event: PointerEvent) => void;
  choose: (program: number) => void;
  moveHere: (cpu: number) => void;
  step: (program: number, cpu: number, by: number) => void;
}

interface SlotProps {
  cpu: number;
  /** Below 0: none. */
  program: number;
  name: string;
  slowdown: number;
  looked: boolean;
  target: boolean;
  gain: string | null;
  lookedName: string;
  /** The same object for good, so that a slot is drawn again only when it shows something else. */
  acts: { current: Acts | null };
}

const Slot = memo(function Slot({ cpu, program, name, slowdown, looked, target, gain, lookedName, acts }: SlotProps) {
  const better = gain?.startsWith("−");
  return (
    <div class={`slot ${target ? "target" : ""}`} data-cpu={cpu}>
      <span class="cpu-name" aria-hidden="true">{cpu}</span>
      {program >= 0 ? (
        <button type="button" class={`chip ${heat(slowdown)} ${looked ? "looked" : ""}`} data-program={program} data-moves={`p${program}`}
          aria-pressed={looked} title={`${name}: ${times(slowdown)} times as long as alone`}
          aria-label={`${name} ${times(slowdown)} times as long as alone, on CPU ${cpu}`}
          onPointerDown={(event) => acts.current?.press(program, event)}
          onClick={() => acts.current?.choose(program)}
          onKeyDown={(event) => {
            const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
            if (step === undefined) return;
            event.preventDefault();
            acts.current?.step(program, cpu, step);
          }}>
          <span class={`stripe l${program % 8}`} aria-hidden="true" />
          <span class="chip-name">{name}</span>{" "}
          <span class="chip-figure">{times(slowdown)}</span>
        </button>
      ) : (
        <button type="button" class="free" onClick={() => acts.current?.moveHere(cpu)} aria-label={`${gain ? `${better ? "▼" : "▲"} ${gain} mean slowdown` : "free"}: move ${lookedName} to CPU ${cpu}`}
          title={`Move ${lookedName} here${gain ? `: mean slowdown ${gain}` : ""}`}>
          {gain ? <span class={better ? "better" : "worse"}>{better ? "▼" : "▲"} {gain}</span> : "free"}
        </button>
      )}
    </div>
  );
});

function useDrag({
  machine,
  committed,
  tryOut,
  commit,
  choose,
}: {
  machine: Machine;
  committed: Layout | null;
  tryOut: (layout: Layout | null) => void;
  commit: (layout: Layout, selected: number | null) => void;
  choose: (program: number) => void;
}) {
  const [program, setProgram] = useState<number | null>(null);
  const press = (who: number, down: PointerEvent) => {
    // A finger scrolls; it selects a program, then taps a CPU.
    if (down.button !== 0 || down.pointerType === "touch" || !committed) return;
    const chip = down.currentTarget as HTMLElement;
    // The figure follows the pointer.
    let ghost: HTMLElement | null = null;
    let over: number | null = null;
    const end = () => {
      ghost?.remove();
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", up);
      removeEventListener("pointercancel", cancel);
      removeEventListener("keydown", key);
      document.body.classList.remove("dragging");
      setProgram(null);
    };
    const move = (event: PointerEvent) => {
      if (!ghost) {
        if (Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) < DRAG_AFTER) return;
        ghost = chip.cloneNode(true) as HTMLElement;
        ghost.classList.add("ghost");
        ghost.removeAttribute("data-program");
        ghost.removeAttribute("data-moves");
        ghost.setAttribute("aria-hidden", "true");
        ghost.style.width = `${chip.offsetWidth}px`;
        document.body.append(ghost);
        document.body.classList.add("dragging");
        setProgram(who);
        choose(who);
      }
      event.preventDefault();
      ghost.style.left = `${event.clientX}px`;
      ghost.style.top = `${event.clientY}px`;
      const slot = document.elementFromPoint(event.clientX, event.clientY)?.closest<HTMLElement>("[data-cpu]");
      const cpu = slot ? Number(slot.dataset.cpu) : null;
      if (cpu !== over) {
        over = cpu;
        tryOut(machine.moved(committed, who, cpu ?? committed.cpu[who]));
      }
    };
    const up = () => {
      const target = ghost ? over : null;
      if (ghost) addEventListener("click", swallow, { capture: true, once: true });
      setTimeout(() => removeEventListener("click", swallow, { capture: true }), 50);
      end();
      if (target !== null && target !== committed.cpu[who]) commit(machine.moved(committed, who, target), who);
      else tryOut(null);
    };
    const swallow = (event: Event) => event.stopPropagation();
    const cancel = () => {
      end();
      tryOut(null);
    };
    const key = (event: KeyboardEvent) => {
      if (event.key === "Escape") cancel();
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
    addEventListener("pointercancel", cancel);
    addEventListener("keydown", key);
  };
  return { program, press };
}

/** The searches, and folded below them the policies: opened, they would push the machine out of sight. */
function Policies({ policies, busy, apply }: { policies: PolicyEntry[]; busy: string | null; apply: (name: string) => void }) {
  const [last, setLast] = useState<PolicyEntry | null>(null);
  const chosen = (one: PolicyEntry) => {
    setLast(one);
    apply(one.name);
  };
  const scheduling = policies.filter((one) => one.places && !one.search);
  return (
    <div class="place-all">
      <PolicyList label="Place all programs" style="searches" policies={policies.filter((one) => one.search)} busy={busy} apply={chosen} />
      <details>
        <summary>Or place them as one of {scheduling.length} scheduling policies would</summary>
        <PolicyList label="Let a policy place the programs" policies={scheduling} busy={busy} apply={chosen} />
      </details>
      <p class="note" role="status">{last && <><strong>{last.label}</strong>: {last.summary}.</>}</p>
    </div>
  );
}

/** How good the placement is, between the worst and the best there is. */
function Summary({ explained, bounds }: { explained: Explained; bounds: Bounds }) {
  const { placement } = explained;
  const now = placement.antt ?? 1;
  const best = bounds.best?.placement;
  const worst = bounds.worst?.placement;
  const low = best?.antt ?? null;
  const high = worst?.antt ?? null;
  const share = low !== null && high !== null && high > low ? Math.max(0, Math.min(1, (high - now) / (high - low))) : null;
  return (
    <div class="summary">
      <dl class="figures">
        <div class="figure"><dt>Mean slowdown</dt><dd><span class="big" data-figure="antt">{times(now)}</span>
          <span class="note">{low === null ? "looking for the best…" : now < low * 0.9995 ? `${changed(now, low)}: divided ways beat the best placement` : now <= low * 1.0005 ? "as good as the best" : `${changed(now, low)} against the best`}</span></dd></div>
        <div class="figure"><dt>Throughput (STP)</dt><dd><span class="big" data-figure="stp">{fixed(placement.stp, 2)}</span><span class="note">of {placement.apps.length}, each alone</span></dd></div>
        <div class="figure"><dt>Unfairness</dt><dd><span class="big" data-figure="unfairness">{fixed(placement.unfairness, 2)}</span><span class="note">largest / smallest slowdown</span></dd></div>
      </dl>
      <div class="distance">
        <div class="distance-bar" role="img"
          aria-label={share === null ? "The best and the worst placement are being searched for" : `Mean slowdown ${times(now)}, between the worst ${times(high!)} and the best ${times(low!)}`}>
          {share !== null && <span class="distance-mark" style={{ left: `${100 * share}%` }} />}
        </div>
        <div class="distance-ends">
          <span>worst {high === null ? "…" : times(high)}</span>
          <span>{share === null ? (low !== null && high !== null ? "all placements are alike" : "") : `${Math.round(100 * share)} % of the way`}</span>
          <span>best {low === null ? "…" : times(low)} {best && (best.proven ? "(proven)" : "(best found)")}</span>
        </div>
        <Notice of={bounds.fault} />
      </div>
    </div>
  );
}

function Table({ explained, looked, choose }: { explained: Explained; looked: number | null; choose: (program: number) => void }) {
  const { placement } = explained;
  const [open, setOpen] = useState(placement.apps.length <= LISTED);
  if (!open) {
    return (
      <section class="card table-card" aria-labelledby="table-title">
        <h2 id="table-title">All programs</h2>
        <button type="button" onClick={() => setOpen(true)}>List all {placement.apps.length}</button>
      </section>
    );
  }
  return (
    <section class="card table-card" aria-labelledby="table-title">
      <h2 id="table-title">All programs</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Figures of all programs">
        <table>
          <thead>
            <tr><th scope="col">program</th><th scope="col" class="n">CPU</th><th scope="col" class="n">LLC</th>{placement.mask && <th scope="col" class="n">ways</th>}
              <th scope="col" class="n">slowdown</th><th scope="col" class="n">IPC</th><th scope="col" class="n">MPKI</th><th scope="col" class="n">traffic</th><th scope="col" class="n">LLC held</th></tr>
          </thead>
          <tbody>
            {placement.apps.map((app, place) => {
              const figures = placement.programs[place];
              return (
                <tr key={place} class={place === looked ? "looked" : ""}>
                  <th scope="row"><button type="button" class="link" onClick={() => choose(place)}><span class={`dot l${place % 8}`} aria-hidden="true" />{shown(app)}</button></th>
                  <td class="n">{placement.cpu[place]}</td><td class="n">{placement.llc[place]}</td>
                  {placement.mask && <td class="n">{placement.mask[place]}</td>}
                  <td class="n" data-slowdown={place}>{placement.slowdown[place].toFixed(3)}{figures.extrapolated ? "*" : ""}</td>
                  <td class="n">{fixed(figures.ipc, 2)}</td><td class="n">{fixed(figures.llc_mpki, 2)}</td>
                  <td class="n">{traffic(figures.bandwidth_mb_per_s)}</td><td class="n">{size(figures.llc_occupancy_bytes)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <p class="note">
        {placement.data.extrapolated.length > 0 && "* extrapolated: outside the profile's measured range. "}
        Slowdown: time beside the others / time alone on the fastest CPU. Profiles: {shown(placement.data.profiles)}. Model: space {placement.data.space},
        bandwidth {placement.data.bandwidth_model}.
      </p>
    </section>
  );
}
