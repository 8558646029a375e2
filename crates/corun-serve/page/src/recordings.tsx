// The view that sets two live recordings side by side: before a change and after it.

import { useEffect, useState } from "preact/hooks";
import { ask, Refusal, textOf, type ComparedFigure, type ComparedProgram, type ComparedRecordings, type RecordingFacts } from "./api";
import { counted, fixed, percent, perSecond, shown, size, traffic } from "./figures";
import { Notice } from "./notice";
import { BeforeAfter } from "./plots";

/** Letters of two recordings together that the server takes: quoting makes a recording up to a quarter longer. */
const MOST_BYTES = 48 << 20;

/** Changes below this are written as none. */
const LEAST_PERCENT = 0.05;

/** How a figure is named and written. */
const FIGURES: Record<ComparedFigure["figure"], { name: string; long: string; text: (value: number) => string }> = {
  cpus_busy: { name: "CPUs busy", long: "CPUs busy", text: (value) => fixed(value, 2) },
  instructions_per_s: { name: "instructions", long: "Instructions a second", text: perSecond },
  ipc: { name: "IPC", long: "Instructions per cycle (IPC)", text: (value) => fixed(value, 2) },
  llc_mpki: { name: "MPKI", long: "LLC misses per 1000 instructions (MPKI)", text: (value) => fixed(value, 2) },
  memory_bytes_per_s: { name: "memory traffic", long: "Memory traffic", text: (value) => traffic(value / 1e6) },
  llc_occupancy_bytes: { name: "LLC held", long: "LLC held", text: size },
};

type Side = "before" | "after";

interface ChosenFile {
  name: string;
  text: string;
}

/** What was chosen and answered: going from view to view asks nothing twice. */
const kept: { files: Partial<Record<Side, ChosenFile>>; compared: ComparedRecordings | null } = { files: {}, compared: null };

export function Recordings() {
  const [files, setFiles] = useState(kept.files);
  const [compared, setCompared] = useState(kept.compared);
  const [fault, setFault] = useState<unknown>(null);
  const [chosen, setChosen] = useState<string | null>(null);

  useEffect(() => {
    const { before, after } = files;
    if (files === kept.files || !before || !after) return;
    const stop = new AbortController();
    setFault(null);
    setCompared(null);
    const bytes = before.text.length + after.text.length;
    if (bytes > MOST_BYTES) {
      setFault(new Refusal("page", `The recordings have ${size(bytes)} together: at most ${size(MOST_BYTES)} can be compared here.`, ["corun record --duration SECONDS"]));
      return;
    }
    ask<ComparedRecordings>("recordings", { before: before.text, after: after.text }, stop.signal)
      .then((found) => {
        if (stop.signal.aborted) return;
        kept.files = files;
        kept.compared = found;
        setCompared(found);
      })
      .catch((error) => {
        if (!stop.signal.aborted) setFault(error);
      });
    return () => stop.abort();
  }, [files]);

  const choose = (side: Side) => async (event: { currentTarget: HTMLInputElement }) => {
    const input = event.currentTarget;
    const file = input.files?.[0];
    if (!file) return;
    setFault(null);
    try {
      const read = { name: file.name, text: await textOf(file) };
      setFiles((now) => ({ ...now, [side]: read }));
    } catch (error) {
      // The same file can be chosen again.
      input.value = "";
      setFault(error);
    }
  };
  const busy = files.before && files.after && !compared && !fault;
  const program = compared?.programs.find((one) => one.program === chosen) ?? compared?.programs[0] ?? null;
  return (
    <div class="recordings">
      <p class="how">
        Record programs before and after a change, and choose the two files. <code>corun record -o before.corun --user NAME</code> writes one.
      </p>
      <div class="recording-files">
        {(["before", "after"] as const).map((side) => (
          <div key={side} class="card recording-file">
            <label class="field">
              {side === "before" ? "Before" : "After"}
              <input type="file" data-recording={side} onChange={choose(side)} />
            </label>
            {compared ? <Facts file={files[side]} facts={compared[side]} /> : files[side] && <p class="note">{shown(files[side]!.name)}</p>}
          </div>
        ))}
      </div>
      <Notice of={fault} />
      {busy && <p class="empty" role="status">Reading…</p>}
      {compared && (compared.before.machine !== compared.after.machine || compared.before.cpus !== compared.after.cpus) && (
        <p class="notice">The recordings are of different machines: what differs may be the machines'.</p>
      )}
      {compared && compared.programs.length === 0 && <p class="empty">No program was there in either recording.</p>}
      {compared && program && (
        <>
          <section class="card" aria-labelledby="changes-title">
            <h2 id="changes-title">What changed</h2>
            <Changes compared={compared} chosen={program.program} choose={setChosen} />
            <p class="note">
              Each cell: before → after, the change, and its 95 % interval, which tells how unsteady the recordings were. Where
              none stands, a recording is too short to tell; ▲ and ▼ stand where the interval leaves out zero. What else changed
              between the two, no recording tells: <code>corun ab</code> switches a policy on and off by turns to find its effect.
              {compared.programs_left_out > 0 && ` ${counted(compared.programs_left_out, "program")} that did least are left out.`}
            </p>
          </section>
          <section class="card" aria-labelledby="program-title">
            <h2 id="program-title">{shown(program.program)}</h2>
            <Presence program={program} />
            <p class="note">Dashed: before. Solid: after. Both from their own beginning.</p>
            <div class="before-after">
              {program.figures.filter((one) => one.before !== null || one.after !== null).map((one) => (
                <BeforeAfter key={one.figure} title={FIGURES[one.figure].long} text={FIGURES[one.figure].text}
                  before={one.before_parts} after={one.after_parts} seconds={[compared.before.seconds, compared.after.seconds]} />
              ))}
            </div>
          </section>
        </>
      )}
    </div>
  );
}

function Facts({ file, facts }: { file: ChosenFile | undefined; facts: RecordingFacts }) {
  return (
    <p class="note">
      {file && <>{shown(file.name)}: </>}{counted(facts.looks, "look")} in {facts.seconds.toFixed(1)} s at {shown(facts.machine)},{" "}
      {counted(facts.cpus, "CPU")}{facts.broken_off && "; it ends within a line, which is left out"}
    </p>
  );
}

/** Is it known that the figure changed? Null where the recordings are too short to tell. */
function isClear(one: ComparedFigure): boolean | null {
  if (one.low_percent === null || one.high_percent === null) return null;
  return Math.abs(one.change_percent!) >= LEAST_PERCENT && (one.low_percent > 0 || one.high_percent < 0);
}

function Changes({ compared, chosen, choose }: { compared: ComparedRecordings; chosen: string; choose: (program: string) => void }) {
  const figures = compared.programs[0].figures.map((one) => one.figure)
    .filter((_, place) => compared.programs.some(({ figures }) => figures[place].before !== null || figures[place].after !== null));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Programs before and after">
      <table class="changes">
        <thead><tr><th scope="col">program</th>{figures.map((one) => <th key={one} scope="col" class="n">{FIGURES[one].name}</th>)}</tr></thead>
        <tbody>
          {compared.programs.map((one) => (
            <tr key={one.program} class={one.program === chosen ? "looked" : ""}>
              <th scope="row">
                <button type="button" class="link" aria-pressed={one.program === chosen} onClick={() => choose(one.program)}>{shown(one.program)}</button>
                {(!one.before || !one.after) && <span class="note"> only {one.before ? "before" : "after"}</span>}
              </th>
              {one.figures.filter(({ figure }) => figures.includes(figure)).map((figure) => <Change key={figure.figure} of={figure} />)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Change({ of: one }: { of: ComparedFigure }) {
  const text = (value: number | null) => (value === null ? "–" : FIGURES[one.figure].text(value));
  const clear = isClear(one);
  return (
    <td class="n" data-figure={one.figure}>
      {text(one.before)} → {text(one.after)}
      {one.change_percent !== null && (
        <span class={`change ${clear ? "clear" : ""}`}>
          {clear && (one.change_percent > 0 ? "▲ " : "▼ ")}{percent(one.change_percent)}
          {clear !== null && <span class="note interval">{percent(one.low_percent!)} to {percent(one.high_percent!)}</span>}
        </span>
      )}
    </td>
  );
}

function Presence({ program }: { program: ComparedProgram }) {
  const where = (shares: number[]) =>
    shares.flatMap((share, llc) => (share >= 0.005 ? [`LLC ${llc}: ${Math.round(100 * share)} %`] : [])).join(", ");
  return (
    <dl class="presence">
      {(["before", "after"] as const).map((side) => {
        const one = program[side];
        return (
          <div key={side}>
            <dt>{side}</dt>
            <dd>
              {one === null ? "not there" : `${counted(one.threads, "thread")} for ${one.seconds.toFixed(1)} s` +
                (one.llc_shares.length ? `; CPU time under ${where(one.llc_shares)}` : "")}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}
