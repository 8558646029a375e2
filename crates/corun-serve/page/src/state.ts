// What the page shows, and the same as the address's fragment, so that a link shows it again.

import type { MachineChoice, Question } from "./api";
import { canonicalMask } from "./layout";

export const VIEWS = ["what-if", "compare", "live", "recordings"] as const;

export type View = (typeof VIEWS)[number];

export interface State {
  view: View;
  machine: MachineChoice;
  profiles: string[];
  apps: string[];
  /** Each program's CPU, by the machine's own number; null until the server chose. */
  cpu: number[] | null;
  /** Each program's ways; null for a program under an LLC that is whole. */
  mask: (string | null)[] | null;
  /** The program that is looked at. */
  selected: number | null;
}

export const question = (state: State): Question => ({
  machine: state.machine,
  apps: state.apps,
  profiles: state.profiles,
});

const list = (values: string[]) => values.map(encodeURIComponent).join(",");
const unlist = (text: string) => (text === "" ? [] : text.split(",").map(decodeURIComponent));

/** Files that were pasted, deflated, as letters that an address may have. */
async function packed(value: unknown): Promise<string> {
  const stream = new Blob([JSON.stringify(value)]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpacked(text: string): Promise<unknown> {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return JSON.parse(await new Response(stream).text());
}

export async function toFragment(state: State): Promise<string> {
  const parts = [`view=${state.view}`];
  if ("name" in state.machine) parts.push(`machine=${encodeURIComponent(state.machine.name)}`);
  parts.push(`apps=${list(state.apps)}`);
  if (state.cpu) parts.push(`cpu=${state.cpu.join(",")}`);
  if (state.mask?.some((one) => one !== null)) parts.push(`ways=${state.mask.map((one) => one ?? "-").join(",")}`);
  if (state.selected !== null) parts.push(`program=${state.selected}`);
  const file = "file" in state.machine ? state.machine.file : undefined;
  if (file !== undefined || state.profiles.length > 0) {
    parts.push(`files=${await packed({ machine: file, profiles: state.profiles })}`);
  }
  return `#${parts.join("&")}`;
}

function readMask(text: string): string {
  if (!/^0x[0-9a-f]+$/i.test(text)) throw new Error(`${text} is no mask of ways`);
  return canonicalMask(BigInt(text));
}

/** What a fragment says; what it leaves open is as given. Throws where the fragment is damaged. */
export async function fromFragment(fragment: string, otherwise: State): Promise<State> {
  const said = new Map(
    fragment
      .replace(/^#/, "")
      .split("&")
      .map((part) => [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)] as const),
  );
  const state: State = { ...otherwise };
  state.view = VIEWS.find((view) => view === said.get("view")) ?? state.view;
  const machine = said.get("machine");
  if (machine) state.machine = { name: decodeURIComponent(machine) };
  const apps = said.get("apps");
  if (apps !== undefined) {
    state.apps = unlist(apps);
    state.cpu = null;
  }
  const files = said.get("files");
  state.profiles = [];
  if (files) {
    const read = (await unpacked(files)) as { machine?: unknown; profiles?: unknown };
    if (typeof read.machine === "string") state.machine = { file: read.machine };
    if (Array.isArray(read.profiles)) state.profiles = read.profiles.filter((one) => typeof one === "string");
  }
  const cpu = said.get("cpu");
  if (cpu) state.cpu = cpu.split(",").map(Number).filter(Number.isFinite);
  const ways = said.get("ways");
  state.mask = ways ? ways.split(",").map((one) => (one === "-" ? null : readMask(one))) : null;
  const program = said.get("program");
  state.selected = program !== undefined && Number(program) < state.apps.length ? Number(program) : null;
  return state;
}
