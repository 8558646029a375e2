// What is asked about: machine, programs, own files.

import { useRef, useState } from "preact/hooks";
import { ask, textOf, type MachineEntry, type ProgramEntry } from "./api";
import { shown } from "./figures";
import { Notice } from "./notice";
import type { State } from "./state";

/** Programs of which the list may scroll. */
const MANY = 12;

const OWN = "(pasted file)";

interface Props {
  state: State;
  change: (next: Partial<State>) => void;
  machines: MachineEntry[];
  programs: ProgramEntry[];
  addProgram: (name: string) => void;
  removeProgram: (place: number) => void;
  machineFault: unknown;
  programsFault: unknown;
}

export function Controls({ state, change, machines, programs, addProgram, removeProgram, machineFault, programsFault }: Props) {
  const [name, setName] = useState("");
  const dialog = useRef<HTMLDialogElement>(null);
  const own = "file" in state.machine;
  const pasted = state.profiles.map((text) => /^\s*name\s*=\s*"([^"\n]+)"/m.exec(text)?.[1] ?? "");
  const known = [...pasted.filter(Boolean), ...programs.map((one) => one.name)];
  return (
    <div class="controls">
      <div>
        <label class="field">
          Machine
          <select value={"name" in state.machine ? state.machine.name : OWN}
            onChange={(event) => {
              if (event.currentTarget.value !== OWN) {
                change({ machine: { name: event.currentTarget.value }, cpu: null, mask: null });
              }
            }}>
            {own && <option value={OWN}>{OWN}</option>}
            {"name" in state.machine && !machines.some((one) => "name" in state.machine && one.name === state.machine.name) && (
              <option value={state.machine.name}>{shown(state.machine.name)}</option>
            )}
            {machines.map((one) => (
              <option key={one.name} value={one.name}>
                {shown(one.name)}: {one.cpus} CPUs, {one.llcs} {one.llcs === 1 ? "LLC" : "LLCs"}
              </option>
            ))}
          </select>
        </label>
        <Notice of={machineFault} />
      </div>
      <div class="programs-control">
        <form class="field"
          onSubmit={(event) => {
            event.preventDefault();
            if (name.trim()) addProgram(name.trim());
            setName("");
          }}>
          <label for="add-program">Programs</label>
          <span class="joined">
            <input id="add-program" list="known-programs" value={name} placeholder="add one by name" autocomplete="off"
              onInput={(event) => setName(event.currentTarget.value)} />
            <button type="submit">Add</button>
          </span>
          <datalist id="known-programs">
            {known.map((one) => (
              <option key={one} value={one} />
            ))}
          </datalist>
        </form>
        <ul class="chosen-programs" aria-label="Programs that run" tabIndex={state.apps.length > MANY ? 0 : undefined}>
          {state.apps.map((app, place) => (
            <li key={place}>
              <span class={`dot l${place % 8}`} aria-hidden="true" />
              {shown(app)}
              <button type="button" class="remove" aria-label={`Remove ${shown(app)}`} onClick={() => removeProgram(place)}>×</button>
            </li>
          ))}
        </ul>
        <Notice of={programsFault} />
      </div>
      <button type="button" onClick={() => dialog.current?.showModal()}>Own file…</button>
      <OwnFile dialog={dialog} state={state} change={change} addProgram={addProgram} />
    </div>
  );
}

type Kind = "machine" | "mix" | "profile";

function OwnFile({
  dialog,
  state,
  change,
  addProgram,
}: {
  dialog: { current: HTMLDialogElement | null };
  state: State;
  change: (next: Partial<State>) => void;
  addProgram: (name: string, profile: string) => void;
}) {
  const [kind, setKind] = useState<Kind>("mix");
  const [text, setText] = useState("");
  const [fault, setFault] = useState<unknown>(null);
  const [told, setTold] = useState<string[]>([]);
  const use = async () => {
    setFault(null);
    setTold([]);
    try {
      if (kind === "machine") {
        await ask("machine", { machine: { file: text } });
        change({ machine: { file: text }, cpu: null, mask: null });
      } else if (kind === "mix") {
        const mix = await ask<{ machine: string | null; apps: string[]; left_out: string[] }>("mix", { text });
        change({ apps: mix.apps, cpu: null, mask: null, selected: null, ...(mix.machine ? { machine: { name: mix.machine } } : {}) });
        if (mix.left_out.length) return setTold(mix.left_out);
      } else {
        const profile = await ask<{ name: string }>("profile", { text });
        addProgram(profile.name, text);
      }
      setText("");
      dialog.current?.close();
    } catch (error) {
      setFault(error);
    }
  };
  return (
    <dialog ref={dialog} aria-labelledby="own-title">
      <form method="dialog" onSubmit={(event) => { event.preventDefault(); void use(); }}>
        <h2 id="own-title">Use a file of your own</h2>
        <label class="field">
          What it is
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value as Kind)}>
            <option value="mix">a mix: which programs run</option>
            <option value="machine">a machine (corun topology --format toml)</option>
            <option value="profile">a profile (corun profile -o FILE)</option>
          </select>
        </label>
        <label class="field">
          Choose the file
          <input type="file" accept=".toml,text/plain"
            onChange={async (event) => {
              const input = event.currentTarget;
              const file = input.files?.[0];
              if (!file) return;
              setFault(null);
              try {
                setText(await textOf(file));
              } catch (error) {
                input.value = "";
                setFault(error);
              }
            }} />
        </label>
        <label class="field">
          or paste its text
          <textarea rows={9} value={text} spellcheck={false} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <Notice of={fault} />
        {told.length > 0 && (
          <div class="notice" role="status">
            <p>The programs are there. Of the mix, a placement knows nothing of:</p>
            <ul>{told.map((one) => <li key={one}>{shown(one)}</li>)}</ul>
          </div>
        )}
        <p class="note">
          The text goes to the corun on this machine and into this page's address, nowhere else.
          {state.profiles.length > 0 && ` ${state.profiles.length} own profiles are in use.`}
        </p>
        <div class="actions">
          <button type="submit" class="main" disabled={!text.trim()}>Use it</button>
          <button type="button" onClick={() => dialog.current?.close()}>Close</button>
        </div>
      </form>
    </dialog>
  );
}
