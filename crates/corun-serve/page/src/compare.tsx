// The view that sets policies side by side.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask, type Compared, type ComparisonRow, type Drawing, type PolicyEntry, type Timeline } from "./api";
import { fixed, heat, shown } from "./figures";
import { goesBy } from "./goes-by";
import { Notice } from "./notice";
import { Scatter } from "./plots";
import { question, type State } from "./state";
import { Sweep } from "./sweep";

interface Props {
  state: State;
  drawing: Drawing;
  policies: PolicyEntry[];
  open: (next: Partial<State>) => void;
}

/** Answers that were given, by question: going from view to view asks nothing twice. */
const given = new Map<string, Compared>();
const KEPT = 8;
/** Mean slowdowns that are no more apart are alike: of such policies the one that moves less is shown first. */
const ALIKE = 0.0005;

export function Compare({ state, drawing, policies, open }: Props) {
  const asked = useMemo(() => question(state), [state.machine, state.apps, state.profiles]);
  const [seeds, setSeeds] = useState(3);
  const key = JSON.stringify([asked, seeds]);
  const [compared, setCompared] = useState<Compared | null>(given.get(key) ?? null);
  const [fault, setFault] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const [chosen, setChosen] = useState<string | null>(null);
  const stop = useRef<AbortController | null>(null);

  const run = async () => {
    stop.current?.abort();
    const own = new AbortController();
    stop.current = own;
    setBusy(true);
    setFault(null);
    try {
      const found = await ask<Compared>("compare", { question: asked, seeds }, own.signal);
      given.set(key, found);
      if (given.size > KEPT) given.delete(given.keys().next().value!);
      setCompared(found);
    } catch (error) {
      if (!own.signal.aborted) setFault(error);
    }
    if (stop.current === own) setBusy(false);
  };
  useEffect(() => {
    setCompared(given.get(key) ?? null);
    if (!given.has(key) && state.apps.length > 0) void run();
    return () => stop.current?.abort();
  }, [key]);

  const rows = compared?.comparison.policies ?? [];
  const best = rows.filter((row) => row.kind === "policy").reduce<ComparisonRow | null>(
    (low, row) => (low && (Math.abs(low.mean_slowdown - row.mean_slowdown) < ALIKE
      ? (low.migrations ?? 0) <= (row.migrations ?? 0) : low.mean_slowdown < row.mean_slowdown) ? low : row), null);
  const name = chosen !== null && rows.some((row) => row.policy === chosen) ? chosen : (best?.policy ?? "");
  const place = rows.findIndex((row) => row.policy === name);
  const row = rows[place];
  const timeline = compared?.timelines[place] ?? null;
  const by = goesBy(policies, name);

  return (
    <div class="compare">
      <div class="compare-head">
        <p class="how">
          Every policy schedules the programs on the simulated machine; the best and the worst placement stand beside
          them. What if shows one moment of even work; here programs run on through their phases, so that figures differ a little.
        </p>
        <label class="field inline">
          Runs a policy
          <select value={seeds} onChange={(event) => setSeeds(Number(event.currentTarget.value))}>
            {[1, 3, 10, 20].map((count) => <option key={count} value={count}>{count}</option>)}
          </select>
        </label>
        {busy ? (
          <button type="button" onClick={() => { stop.current?.abort(); setBusy(false); }}>Stop</button>
        ) : (
          <button type="button" class={compared ? "" : "main"} disabled={state.apps.length === 0} onClick={run}>{compared ? "Run again" : "Compare"}</button>
        )}
      </div>
      <Notice of={fault} />
      {busy && <p class="empty" role="status">Simulating…</p>}
      {compared && row && (
        <>
          {compared.comparison.data.no_optimum && <p class="notice">No optimum: {shown(compared.comparison.data.no_optimum)}.</p>}
          <div class="columns">
            <section class="card" aria-labelledby="rows-title">
              <h2 id="rows-title">Policies</h2>
              <Rows rows={rows} policies={policies} name={name} choose={setChosen} />
            </section>
            <section class="card" aria-labelledby="scatter-title">
              <h2 id="scatter-title">Throughput against unfairness</h2>
              <Scatter chosen={name} choose={setChosen} frontier={compared.frontier}
                dots={rows.flatMap((one) => one.stp === null || one.unfairness === null || one.same_as !== null ? [] :
                  [{ name: one.policy, x: one.stp, y: one.unfairness, style: one.kind === "policy" ? "policy" : one.kind }])} />
              <p class="note">◆ the placement of least mean slowdown, ■ the worst, ● policies; lower right is best.{compared.frontier.length > 0 && " The line is the frontier: no placement that stays has more throughput without more unfairness; policies that move programs can be beyond it."}</p>
            </section>
          </div>
          <section class="card" aria-labelledby="row-title">
            <h2 id="row-title">{shown(name)}</h2>
            {by && <p class="note">{by}.</p>}
            <ul class="slowdowns">
              {compared.comparison.apps.map((app, program) => (
                <li key={app} class={heat(row.slowdown[program])}>{shown(app)} <strong>{row.slowdown[program].toFixed(2)}</strong></li>
              ))}
            </ul>
            {row.cpu.length === state.apps.length && new Set(row.cpu).size === row.cpu.length && (
              <button type="button" onClick={() => open({ view: "what-if", cpu: row.cpu, mask: null })}>Open this placement in What if</button>
            )}
            {timeline && <Lanes timeline={timeline} apps={compared.comparison.apps} drawing={drawing} />}
          </section>
        </>
      )}
      <Sweep policies={policies} />
    </div>
  );
}

interface RowsProps {
  rows: ComparisonRow[];
  policies: PolicyEntry[];
  name: string;
  choose: (name: string) => void;
}

/** A policy that comes out as another one stands below the table: it has no figures of its own. */
function Rows({ rows, policies, name, choose }: RowsProps) {
  const most = Math.max(...rows.map((row) => row.mean_slowdown)) - 1;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Policies side by side">
      <table class="policy-rows">
        <thead>
          <tr><th scope="col">policy</th><th scope="col" class="n">mean slowdown</th><th scope="col" aria-hidden="true"></th><th scope="col" class="n">above the best</th><th scope="col" class="n">STP</th><th scope="col" class="n">unfairness</th><th scope="col" class="n">moves a run</th></tr>
        </thead>
        <tbody>
          {rows.filter((row) => row.same_as === null).map((row) => (
            <>
              <tr key={row.policy} class={`${row.kind} ${row.policy === name ? "looked" : ""}`}>
                <th scope="row">
                  <button type="button" class="link" aria-pressed={row.policy === name} aria-describedby={`row-by-${row.policy}`} onClick={() => choose(row.policy)}>{shown(row.policy)}</button>
                  {row.optimal_proven && row.kind === "optimal" && <span class="note"> proven</span>}
                </th>
                <td class="n">{row.mean_slowdown.toFixed(3)}</td>
                <td class="bar-cell"><span class="track" aria-hidden="true"><span class={`fill ${row.kind === "policy" ? "" : row.kind}`} style={{ width: `${(100 * (row.mean_slowdown - 1)) / Math.max(most, 1e-6)}%` }} /></span></td>
                <td class="n">{row.above_optimal_percent === null ? "–" : `${row.above_optimal_percent.toFixed(1).replace(/^-0\.0$/, "0.0").replace("-", "−")} %`}</td>
                <td class="n">{fixed(row.stp, 2)}</td><td class="n">{fixed(row.unfairness, 2)}</td><td class="n">{fixed(row.migrations, 0)}</td>
              </tr>
              <tr key={`${row.policy} goes by`} class={row.policy === name ? "by looked" : "by"}>
                <td colSpan={7}><span id={`row-by-${row.policy}`}>{rowGoesBy(policies, row)}</span></td>
              </tr>
            </>
          ))}
        </tbody>
      </table>
      <Alike rows={rows} policies={policies} />
      <p class="note">Bars begin at 1.0. Figures are means over the runs.</p>
    </div>
  );
}

const rowGoesBy = (policies: PolicyEntry[], row: ComparisonRow) =>
  row.kind === "expectation" ? "the mean over all placements that there are" : goesBy(policies, row.policy);

function Alike({ rows, policies }: { rows: ComparisonRow[]; policies: PolicyEntry[] }) {
  const groups = new Map<string, ComparisonRow[]>();
  for (const row of rows) {
    if (row.same_as !== null) groups.set(row.same_as, [...(groups.get(row.same_as) ?? []), row]);
  }
  return (
    <>
      {[...groups].map(([as, alike]) => (
        <details key={as} class="alike">
          <summary>The same as {shown(as)} here: {alike.map((row) => shown(row.policy)).join(", ")}</summary>
          <dl>{alike.map((row) => <div key={row.policy}><dt>{shown(row.policy)}</dt><dd>{rowGoesBy(policies, row)}</dd></div>)}</dl>
        </details>
      ))}
    </>
  );
}

/** Where programs were when, in the first run, and why they moved. */
function Lanes({ timeline, apps, drawing }: { timeline: Timeline; apps: string[]; drawing: Drawing }) {
  const all = timeline.seconds || 1;
  const [said, setSaid] = useState<number | null>(null);
  const colour = (llc: number) => `l${llc % 8}`;
  const moves = timeline.moves.slice(0, 400);
  return (
    <>
      <h3>The first run: which LLC each program was under</h3>
      <ul class="legend">{drawing.llcs.slice(0, 8).map((_, llc) => <li class="key" key={llc}><span class={`swatch ${colour(llc)}`} aria-hidden="true" />LLC {llc}</li>)}</ul>
      <div class="lanes">
        {timeline.lanes.map((lane, program) => (
          <>
            <span class="lane-name" key={`name${program}`}>{shown(apps[program])}</span>
            <svg key={`lane${program}`} class="lane" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img"
              aria-label={`${shown(apps[program])}: ${lane.map(([at, llc]) => `from ${at.toFixed(1)} s on LLC ${llc}`).slice(0, 12).join(", ")}`}>
              {lane.map(([at, llc], place) => {
                const until = lane[place + 1]?.[0] ?? all;
                return <rect key={place} class={colour(llc)} x={(1000 * at) / all} width={(1000 * (until - at)) / all} y="0" height="20"><title>{`LLC ${llc} from ${at.toFixed(1)} to ${until.toFixed(1)} s`}</title></rect>;
              })}
              {moves.map((one, place) => one.program === program && (
                <rect key={`m${place}`} class={`moment ${said === place ? "said" : ""}`} x={(1000 * one.at_s) / all - 2.5} width="5" y="0" height="20"
                  onPointerEnter={() => setSaid(place)}><title>{`${one.at_s.toFixed(1)} s: CPU ${one.from_cpu} to ${one.to_cpu}. ${shown(one.reason)}`}</title></rect>
              ))}
            </svg>
          </>
        ))}
        <span class="lane-name" />
        <span class="lane-axis note"><span>0 s</span><span>{timeline.seconds.toFixed(1)} s, simulated</span></span>
      </div>
      <p class="said" aria-live="polite">
        {moves.length === 0 ? "Nobody was moved." : said === null ? "Point at a move for its reason." :
          `${moves[said].at_s.toFixed(1)} s: ${shown(apps[moves[said].program])} from CPU ${moves[said].from_cpu} to CPU ${moves[said].to_cpu}. ${shown(moves[said].reason)}`}
      </p>
      {moves.length > 0 && (
        <details>
          <summary>All moves{timeline.moves.length > moves.length ? ` (the first ${moves.length} of ${timeline.moves.length})` : ` (${moves.length})`}</summary>
          <div class="scroll" tabIndex={0} role="region" aria-label="All moves of the first run">
            <table>
              <thead><tr><th scope="col" class="n">time</th><th scope="col">program</th><th scope="col">from</th><th scope="col">to</th><th scope="col">reason</th></tr></thead>
              <tbody>{moves.map((one, place) => (
                <tr key={place}><td class="n">{one.at_s.toFixed(2)} s</td><td>{shown(apps[one.program])}</td><td>CPU {one.from_cpu}</td><td>CPU {one.to_cpu}</td><td class="reason">{shown(one.reason)}</td></tr>
              ))}</tbody>
            </table>
          </div>
        </details>
      )}
    </>
  );
}
