// Acting on this machine, where the server was started with --act: asked for, confirmed, done, and undone.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, type Look } from "./api";
import { counted, cpusOf, shown } from "./figures";
import { Notice } from "./notice";

type Deed = { hold: { pid: number; cpus: string } } | "apply-plan" | "undo-all";

/** What waits for a confirmation: what the viewer saw when he asked for it is part of it. */
interface Wish {
  deed: Deed;
  seen: number;
  /** The question, and what it stands for in steps. */
  words: string;
  steps: string[];
}

interface Done {
  revision: number;
  done: string[];
  not_done: string[];
}

/** Steps of a plan that are shown. */
const SHOWN_STEPS = 12;

export function Act({ look }: { look: Look }) {
  const [pid, setPid] = useState<number | null>(null);
  const [cpus, setCpus] = useState("");
  const [wish, setWish] = useState<Wish | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const [done, setDone] = useState<Done | null>(null);
  const [busy, setBusy] = useState(false);
  // Enter by mistake does nothing.
  const leave = useRef<HTMLButtonElement>(null);
  useEffect(() => leave.current?.focus(), [wish]);

  const act = look.act;
  if (!act) return null;
  const processes = new Map<number, { program: string; threads: number }>();
  for (const one of look.threads) {
    const known = processes.get(one.pid);
    if (known) known.threads += 1;
    else processes.set(one.pid, { program: one.program, threads: 1 });
  }
  const chosen = pid !== null && processes.has(pid) ? pid : ([...processes.keys()][0] ?? null);
  const name = (one: number) => shown(processes.get(one)?.program ?? "");
  const ask_for = (deed: Deed, words: string, steps: string[] = []) => {
    setFault(null);
    setDone(null);
    // The answer to one's own deed may come before the look that shows what it did.
    setWish({ deed, seen: Math.max(act.revision, done?.revision ?? 0), words, steps });
  };
  const carry_out = async () => {
    if (!wish || busy) return;
    setBusy(true);
    try {
      setDone(await ask<Done>("act", { seen: wish.seen, deed: wish.deed }));
    } catch (error) {
      setFault(error);
    } finally {
      setBusy(false);
      setWish(null);
    }
  };
  return (
    <section class="card act" aria-labelledby="live-act">
      <h2 id="live-act">Act</h2>
      <form
        class="act-form"
        onSubmit={(event) => {
          event.preventDefault();
          if (chosen === null) return;
          const threads = counted(processes.get(chosen)?.threads ?? 0, "thread");
          ask_for({ hold: { pid: chosen, cpus } }, `Hold ${name(chosen)} (process ${chosen}, ${threads}) on ${cpusOf(cpus)}?`);
        }}
      >
        <label>
          Process
          <select value={chosen ?? ""} onChange={(event) => setPid(Number(event.currentTarget.value))}>
            {[...processes].map(([one, of]) => <option key={one} value={one}>{shown(of.program)}, {one}</option>)}
          </select>
        </label>
        <label>
          CPUs
          <input value={cpus} placeholder="0-3,8" required pattern="[0-9,\- ]+" onInput={(event) => setCpus(event.currentTarget.value)} />
        </label>
        <button type="submit" disabled={chosen === null}>Hold…</button>
      </form>
      {act.plan.length > 0 && (
        <div class="act-plan">
          <p class="note">The policy would do now:</p>
          <ol class="plain">
            {act.plan.slice(0, SHOWN_STEPS).map((step, at) => <li key={at}>{shown(step.action)} <span class="note">({shown(step.reason)})</span></li>)}
          </ol>
          {act.plan.length > SHOWN_STEPS && <p class="note">and {counted(act.plan.length - SHOWN_STEPS, "more step", "more steps")}</p>}
        </div>
      )}
      <p class="act-buttons">
        <button type="button" disabled={act.plan.length === 0} onClick={() => ask_for("apply-plan", `Apply the policy's plan: ${counted(act.plan.length, "step")}?`, act.plan.map((one) => one.action))}>Apply the plan…</button>{" "}
        <button type="button" disabled={act.held.length === 0} onClick={() => ask_for("undo-all", `Undo all: ${counted(act.held.length, "process", "processes")} may run again where they might before?`)}>Undo all…</button>
      </p>
      {wish && (
        <div class="act-confirm" role="alertdialog" aria-label="Confirm" aria-describedby="act-words"
          onKeyDown={(event) => event.key === "Escape" && setWish(null)}>
          <div id="act-words">
            <p><strong>{wish.words}</strong></p>
            {wish.steps.length > 0 && (
              <ul class="plain">
                {wish.steps.slice(0, SHOWN_STEPS).map((step, at) => <li key={at}>{shown(step)}</li>)}
                {wish.steps.length > SHOWN_STEPS && <li class="note">and {wish.steps.length - SHOWN_STEPS} more</li>}
              </ul>
            )}
          </div>
          <button type="button" disabled={busy} onClick={carry_out}>Do it</button>{" "}
          <button type="button" ref={leave} disabled={busy} onClick={() => setWish(null)}>Leave it</button>
        </div>
      )}
      <Notice of={fault} />
      <div role="status">
        {done && (
          <ul class="plain act-done">
            {done.done.map((line, at) => <li key={at}>{shown(line)}</li>)}
            {done.not_done.map((line, at) => <li key={`not${at}`}>Not done: {shown(line)}</li>)}
          </ul>
        )}
      </div>
      <h3>Held</h3>
      {act.held.length === 0 ? <p class="note">Nothing is held.</p> : (
        <ul class="plain act-held">
          {act.held.map((one) => <li key={`${one.pid} ${one.cpus}`}>{shown(one.program)} (process {one.pid}): {counted(one.threads, "thread")} on {cpusOf(one.cpus)}</li>)}
        </ul>
      )}
      <p class="note">
        When {look.daemon ? "the daemon" : "corun serve"} ends, or by <code>corun restore</code> after a crash, all may run again where they might before.
      </p>
    </section>
  );
}
