// The results of a sweep, opened from its Parquet file and filtered.

import { useMemo, useState } from "preact/hooks";
import { ask, Refusal, type PolicyEntry, type SweepAnswer, type SweepEntry } from "./api";
import { counted, fixed, shown, size } from "./figures";
import { goesBy } from "./goes-by";
import { Notice } from "./notice";
import { Scatter } from "./plots";

/** Bytes of a file that the server takes. */
const MOST_BYTES = 48 << 20;
/** Rows that are listed. */
const LISTED = 200;

/** What was opened: going from view to view asks nothing twice. */
const kept: { name: string; rows: SweepEntry[] } = { name: "", rows: [] };

interface Chosen {
  machine: string;
  mix: string;
  policy: string;
}

export function Sweep({ policies }: { policies: PolicyEntry[] }) {
  const [rows, setRows] = useState(kept.rows);
  const [fault, setFault] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);

  const choose = async (event: { currentTarget: HTMLInputElement }) => {
    const file = event.currentTarget.files?.[0];
    if (!file) return;
    setFault(null);
    setBusy(true);
    try {
      if (file.size > MOST_BYTES) {
        throw new Refusal("page", `The file has ${size(file.size)}: at most ${size(MOST_BYTES)} can be opened here.`, []);
      }
      const found = await ask<SweepAnswer>("sweep", { parquet: await base64(file) });
      kept.name = file.name;
      kept.rows = found.rows;
      setRows(found.rows);
    } catch (error) {
      setFault(error);
    }
    setBusy(false);
  };
  return (
    <section class="card sweep" aria-labelledby="sweep-title">
      <h2 id="sweep-title">Results of a sweep {kept.name && <span class="note">{shown(kept.name)}</span>}</h2>
      <label class="field">
        <span>The file <code>results.parquet</code> that <code>corun sweep</code> wrote</span>
        <input type="file" data-sweep="" onChange={choose} />
      </label>
      <Notice of={fault} />
      {busy && <p class="empty" role="status">Reading…</p>}
      {rows.length > 0 && <Filtered rows={rows} policies={policies} />}
    </section>
  );
}

function base64(file: File): Promise<string> {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => {
      // Of an empty file there is nothing behind a comma, or no comma.
      const [, bytes] = String(reader.result).split(",");
      done(bytes ?? "");
    };
    reader.onerror = () => failed(new Refusal("page", "The file cannot be read.", []));
    reader.readAsDataURL(file);
  });
}

/** A policy over the rows that the filters leave. */
interface Line {
  policy: string;
  kind: string;
  rows: number;
  failed: number;
  mean_slowdown: number | null;
  stp: number | null;
  unfairness: number | null;
  worst_slowdown: number | null;
  migrations: number | null;
}

const names = (rows: SweepEntry[], of: (row: SweepEntry) => string) => [...new Set(rows.map(of))];

function lines(rows: SweepEntry[]): Line[] {
  const groups = new Map<string, SweepEntry[]>();
  for (const row of rows) {
    const group = groups.get(row.policy);
    if (group) group.push(row);
    else groups.set(row.policy, [row]);
  }
  const values = (group: SweepEntry[], of: (row: SweepEntry) => number | null) =>
    group.map(of).filter((value): value is number => value !== null);
  const mean = (all: number[]) => (all.length > 0 ? all.reduce((sum, one) => sum + one, 0) / all.length : null);
  const line = ([policy, group]: [string, SweepEntry[]]): Line => {
    const failed = group.filter((row) => row.error !== null).length;
    const worst = values(group, (row) => row.worst_slowdown);
    return {
      policy,
      kind: group[0].kind,
      rows: group.length - failed,
      failed,
      mean_slowdown: mean(values(group, (row) => row.mean_slowdown)),
      stp: mean(values(group, (row) => row.stp)),
      unfairness: mean(values(group, (row) => row.unfairness)),
      worst_slowdown: worst.length > 0 ? worst.reduce((most, one) => Math.max(most, one)) : null,
      migrations: mean(values(group, (row) => row.migrations)),
    };
  };
  return [...groups].map(line).sort((one, other) => (one.mean_slowdown ?? Infinity) - (other.mean_slowdown ?? Infinity));
}

function Filtered({ rows, policies }: { rows: SweepEntry[]; policies: PolicyEntry[] }) {
  const [chosen, setChosen] = useState<Chosen>({ machine: "", mix: "", policy: "" });
  const [looked, setLooked] = useState("");
  const left = useMemo(() => {
    const words = chosen.policy.toLowerCase().split(/\s+/).filter((word) => word !== "");
    return rows.filter((row) =>
      (chosen.machine === "" || row.machine === chosen.machine) &&
      (chosen.mix === "" || row.mix === chosen.mix) &&
      (words.length === 0 || words.some((word) => row.policy.toLowerCase().includes(word))));
  }, [rows, chosen]);
  const all = useMemo(() => lines(left), [left]);
  const name = all.some((one) => one.policy === looked) ? looked : (all[0]?.policy ?? "");
  const of = left.filter((row) => row.policy === name);
  const select = (what: "machine" | "mix", label: string) => (
    <label class="field inline">
      {label}
      <select data-filter={what} value={chosen[what]} onChange={(event) => setChosen({ ...chosen, [what]: event.currentTarget.value })}>
        <option value="">all</option>
        {names(rows, (row) => row[what]).map((one) => <option key={one} value={one}>{shown(one)}</option>)}
      </select>
    </label>
  );
  return (
    <>
      <div class="compare-head">
        {select("machine", "Machine")}
        {select("mix", "Mix")}
        <label class="field inline">
          Policies with
          <input type="search" data-filter="policy" value={chosen.policy} placeholder="dio lfoc" onInput={(event) => setChosen({ ...chosen, policy: event.currentTarget.value })} />
        </label>
        <p class="how" role="status">{counted(left.length, "row")} of {rows.length}. Figures are means over machines, mixes and seeds; the worst slowdown is the largest.</p>
      </div>
      {all.length > 0 && (
        <>
          <div class="columns">
            <div class="scroll" tabIndex={0} role="region" aria-label="Policies of the sweep">
              <table class="sweep-lines">
                <thead><tr><th scope="col">policy</th><th scope="col" class="n">rows</th><th scope="col" class="n">mean slowdown</th><th scope="col" class="n">STP</th><th scope="col" class="n">unfairness</th><th scope="col" class="n">worst</th><th scope="col" class="n">moves</th></tr></thead>
                <tbody>
                  {all.map((one) => (
                    <>
                      <tr key={one.policy} class={one.policy === name ? "looked" : ""}>
                        <th scope="row">
                          <button type="button" class="link" aria-pressed={one.policy === name} aria-describedby={`sweep-by-${one.policy}`} onClick={() => setLooked(one.policy)}>{shown(one.policy)}</button>
                          {one.failed > 0 && <span class="note"> {one.failed} failed</span>}
                        </th>
                        <td class="n">{one.rows}</td>
                        <td class="n">{fixed(one.mean_slowdown, 3)}</td><td class="n">{fixed(one.stp, 2)}</td><td class="n">{fixed(one.unfairness, 2)}</td>
                        <td class="n">{fixed(one.worst_slowdown, 2)}</td><td class="n">{fixed(one.migrations, 0)}</td>
                      </tr>
                      <tr key={`${one.policy} goes by`} class={one.policy === name ? "by looked" : "by"}>
                        <td colSpan={7}><span id={`sweep-by-${one.policy}`}>{goesBy(policies, one.policy)}</span></td>
                      </tr>
                    </>
                  ))}
                </tbody>
              </table>
            </div>
            <Scatter chosen={name} choose={setLooked} frontier={[]}
              dots={all.flatMap((one) => one.stp === null || one.unfairness === null ? [] :
                [{ name: one.policy, x: one.stp, y: one.unfairness, style: one.kind === "run" ? "policy" : one.kind }])} />
          </div>
          <details>
            <summary>{of.length > LISTED ? `The first ${LISTED} of ${of.length} rows` : counted(of.length, "row")} of {shown(name)}</summary>
            <div class="scroll" tabIndex={0} role="region" aria-label="Rows of the policy">
              <table class="sweep-rows">
                <thead><tr><th scope="col">machine</th><th scope="col">mix</th><th scope="col" class="n">seed</th><th scope="col" class="n">mean slowdown</th><th scope="col" class="n">STP</th><th scope="col" class="n">unfairness</th><th scope="col" class="n">worst</th></tr></thead>
                <tbody>{of.slice(0, LISTED).map((row, place) => (
                  <tr key={place}>
                    <td>{shown(row.machine)}</td><td>{shown(row.mix)}</td><td class="n">{row.seed ?? "–"}</td>
                    {row.error !== null ? <td colSpan={4} class="reason">{shown(row.error)}</td> : (
                      <><td class="n">{fixed(row.mean_slowdown, 3)}</td><td class="n">{fixed(row.stp, 2)}</td><td class="n">{fixed(row.unfairness, 2)}</td><td class="n">{fixed(row.worst_slowdown, 2)}</td></>
                    )}
                  </tr>
                ))}</tbody>
              </table>
            </div>
          </details>
        </>
      )}
    </>
  );
}
