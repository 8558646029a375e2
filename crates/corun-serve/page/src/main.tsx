// The page: its views and what they have in common.

import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import "../../../corun-report/src/style.css";
import "./page.css";
import { ask, Refusal, type Drawing, type MachineEntry, type PolicyEntry, type ProgramEntry, type Session } from "./api";
import { Compare } from "./compare";
import { Controls } from "./controls";
import { Machine } from "./layout";
import { Live } from "./live";
import { Notice } from "./notice";
import { Recordings } from "./recordings";
import { fromFragment, toFragment, VIEWS, type State, type View } from "./state";
import { WhatIf } from "./whatif";
import { Words } from "./words";

/** Programs to start with, from those that feel every neighbour to those that feel none. */
const FIRST = ["sort", "numpy", "xsltproc", "xz", "glpsol", "sqlite3", "hmmsearch", "flac"];

const VIEW_NAMES: Record<View, string> = {
  "what-if": "What if",
  compare: "Compare",
  live: "Live",
  recordings: "Recordings",
};

interface Lists {
  session: Session;
  machines: MachineEntry[];
  programs: ProgramEntry[];
  policies: PolicyEntry[];
}

function Page() {
  const [lists, setLists] = useState<Lists | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const [state, setState] = useState<State | null>(null);
  const [drawn, setDrawn] = useState<{ of: State["machine"]; drawing: Drawing } | null>(null);
  const [machineFault, setMachineFault] = useState<unknown>(null);
  const [programsFault, setProgramsFault] = useState<unknown>(null);
  const first = useRef<State | null>(null);
  const written = useRef<string | null>(null);

  useEffect(() => {
    (async () => {
      try {
        const [session, machines, programs, policies] = await Promise.all([
          ask<Session>("session"),
          ask<{ machines: MachineEntry[] }>("machines"),
          ask<{ programs: ProgramEntry[] }>("programs"),
          ask<{ policies: PolicyEntry[] }>("policies"),
        ]);
        const names = new Set(programs.programs.map((one) => one.name));
        const usual = FIRST.filter((name) => names.has(name));
        const apps = session.apps.length ? session.apps : usual.length ? usual : [...names].slice(0, 4);
        first.current = { view: "what-if", machine: { name: session.machine }, profiles: [], apps, cpu: null, mask: null, selected: null };
        setLists({ session, machines: machines.machines, programs: programs.programs, policies: policies.policies });
        await read();
      } catch (error) {
        setFault(error);
      }
    })();
    addEventListener("popstate", read);
    return () => removeEventListener("popstate", read);
  }, []);

  /** Shows what the address says. */
  const read = async () => {
    if (!first.current || location.hash === written.current) return;
    written.current = location.hash;
    try {
      const said = location.hash.length > 1 && !location.hash.startsWith("#main");
      setState(said ? await fromFragment(location.hash, first.current) : first.current);
      setFault(null);
    } catch {
      setState(first.current);
      setFault(new Refusal("page", "The address is damaged: what it says of the machine and the programs cannot be read.", []));
    }
  };

  /** `quietly`: Back does not return to before it. An answer is of these `apps` and worth nothing for others. */
  const change = (next: Partial<State>, quietly = false, apps?: string[]) => {
    setState((now) => {
      if (!now || (apps && apps !== now.apps)) return now;
      const changed = { ...now, ...next };
      void toFragment(changed).then((fragment) => {
        if (fragment === written.current) return;
        written.current = fragment;
        if (quietly) history.replaceState(null, "", fragment);
        else history.pushState(null, "", fragment);
      });
      return changed;
    });
  };

  const machineKey = state && JSON.stringify(state.machine);
  useEffect(() => {
    if (!state) return;
    const stop = new AbortController();
    setMachineFault(null);
    ask<Drawing>("machine", { machine: state.machine }, stop.signal)
      .then((drawing) => setDrawn({ of: state.machine, drawing }))
      .catch((error) => {
        if (!stop.signal.aborted) {
          setDrawn(null);
          setMachineFault(error);
        }
      });
    return () => stop.abort();
  }, [machineKey]);

  if (!state || !lists) return <main id="main" class="empty"><h1 class="visually-hidden">corun</h1>{fault ? <Notice of={fault} /> : <p role="status">Asking corun…</p>}</main>;

  const drawing = drawn && JSON.stringify(drawn.of) === machineKey ? drawn.drawing : null;
  const addProgram = (name: string, profile?: string) => {
    const profiles = profile ? [...state.profiles, profile] : state.profiles;
    const apps = [...state.apps, name];
    const layout = state.cpu && drawing ? new Machine(drawing).withOneMore({ cpu: state.cpu, mask: state.mask }) : null;
    change({ apps, profiles, cpu: layout?.cpu ?? null, mask: layout?.mask ?? null });
  };
  const removeProgram = (place: number) => {
    const without = <T,>(values: T[]) => values.filter((_, other) => other !== place);
    const selected = state.selected === place ? null : state.selected !== null && state.selected > place ? state.selected - 1 : state.selected;
    change({ apps: without(state.apps), cpu: state.cpu && without(state.cpu), mask: state.mask && without(state.mask), selected });
  };
  return (
    <>
      <header class="top">
        <h1>corun</h1>
        <nav aria-label="Views">
          {VIEWS.map((view) => (
            <button key={view} type="button" aria-current={state.view === view ? "page" : undefined} onClick={() => change({ view })}>{VIEW_NAMES[view]}</button>
          ))}
        </nav>
        <span class="note version">version {lists.session.version}; <strong>{lists.session.acts ? "may act on this machine" : "changes nothing on this machine"}</strong></span>
      </header>
      <main id="main">
        <Notice of={fault} />
        {(state.view === "what-if" || state.view === "compare") && (
          <Controls state={state} change={change} machines={lists.machines} programs={lists.programs} addProgram={addProgram}
            removeProgram={removeProgram} machineFault={machineFault} programsFault={programsFault} />
        )}
        {state.view === "what-if" && drawing && (
          <WhatIf key={machineKey} state={state} change={change} drawing={drawing} policies={lists.policies} failed={setProgramsFault} />
        )}
        {state.view === "compare" && drawing && <Compare state={state} drawing={drawing} policies={lists.policies} open={change} />}
        {state.view === "live" && <Live drawing={lists.session.live} experiment={lists.session.experiment} />}
        {state.view === "recordings" && <Recordings />}
        <Words />
      </main>
    </>
  );
}

render(<Page />, document.getElementById("page")!);
