// The API of the server, as openapi.json describes it.

export type MachineChoice = { name: string } | { file: string };

export interface Question {
  machine: MachineChoice;
  apps: string[];
  profiles: string[];
}

export interface CpuDrawing {
  id: number;
  core: number;
  llc: number;
  node: number;
  package: number;
  core_type: number;
  memory_path: number[];
}

export interface LlcDrawing {
  size_bytes: number | null;
  ways: number | null;
  level: number | null;
}

export interface Drawing {
  name: string;
  title: string;
  packages: number[];
  nodes: { os_index: number; memory_mib: number | null }[];
  llcs: LlcDrawing[];
  cpus: CpuDrawing[];
  core_types: string[];
  bandwidth: { name: string; kind: string; peak_mb_per_s: number }[];
  warnings: string[];
}

export interface ProgramFigures {
  ipc: number;
  llc_apki: number;
  llc_mpki: number;
  bandwidth_mb_per_s: number;
  llc_occupancy_bytes: number;
  memory_stall_share: number;
  extrapolated: boolean;
}

export interface Placement {
  policy: string | null;
  machine: string;
  apps: string[];
  cpu: number[];
  llc: number[];
  mask?: string[];
  slowdown: number[];
  stp: number | null;
  unfairness: number | null;
  antt: number | null;
  gap: number | null;
  proven: boolean | null;
  solver_seconds: number | null;
  programs: ProgramFigures[];
  data: { profiles: string; space: string; bandwidth_model: string; extrapolated: string[] };
}

export interface Factors {
  core: number;
  cache: number;
  hardware_threads: number;
  memory: number;
}

export interface Traffic {
  name: string;
  mb_per_s: number;
  peak_mb_per_s: number;
}

export interface Explained {
  placement: Placement;
  because: Factors[];
  traffic: Traffic[];
}

export interface Move {
  cpu: number;
  with: number | null;
  slowdown: number;
  antt: number;
}

export interface Details {
  app: string;
  by_ways: { ways: number; llc_occupancy_bytes: number; llc_mpki: number; slowdown: number }[];
  cycles: { cause: string; cycles_per_instruction: number }[];
  slowed_by: { program: number; factor: number }[] | null;
  moves: Move[];
}

export interface MachineEntry {
  name: string;
  title: string;
  llcs: number;
  cores: number;
  cpus: number;
}

export interface ProgramEntry {
  name: string;
  instructions: number;
  footprint_bytes: number | null;
  mpki_at_1_mib: number;
}

export interface PolicyEntry {
  name: string;
  label: string;
  summary: string;
  source: string;
  search: boolean;
  /** Does it answer where programs are to run? Policies that only divide caches do not. */
  places: boolean;
}

export interface Session {
  version: string;
  machine: string;
  apps: string[];
  live: Drawing | null;
  acts: boolean;
  /** Is there an experiment whose progress comes in? */
  experiment: boolean;
}

export interface ComparisonRow {
  policy: string;
  kind: "policy" | "optimal" | "expectation" | "worst";
  same_as: string | null;
  mean_slowdown: number;
  stp: number | null;
  unfairness: number | null;
  worst_slowdown: number | null;
  migrations: number | null;
  above_optimal_percent: number | null;
  optimal_proven: boolean | null;
  slowdown: number[];
  cpu: number[];
  llc: number[];
}

export interface Timeline {
  seconds: number;
  lanes: [number, number][][];
  moves: { at_s: number; program: number; from_cpu: number; to_cpu: number; reason: string }[];
}

export interface Compared {
  comparison: {
    machine: string;
    apps: string[];
    method: string;
    seeds: number;
    data: { no_optimum: string | null };
    policies: ComparisonRow[];
  };
  timelines: (Timeline | null)[];
  frontier: { stp: number; unfairness: number; cpu: number[] }[];
}

export interface RecordingFacts {
  machine: string;
  llcs: number;
  cpus: number;
  seconds: number;
  looks: number;
  broken_off: boolean;
}

export interface ComparedFigure {
  figure: "cpus_busy" | "instructions_per_s" | "ipc" | "llc_mpki" | "memory_bytes_per_s" | "llc_occupancy_bytes";
  before: number | null;
  after: number | null;
  change_percent: number | null;
  low_percent: number | null;
  high_percent: number | null;
  before_parts: (number | null)[];
  after_parts: (number | null)[];
}

export interface ProgramPresence {
  seconds: number;
  threads: number;
  llc_shares: number[];
}

export interface ComparedProgram {
  program: string;
  before: ProgramPresence | null;
  after: ProgramPresence | null;
  figures: ComparedFigure[];
}

export interface ComparedRecordings {
  before: RecordingFacts;
  after: RecordingFacts;
  programs: ComparedProgram[];
  programs_left_out: number;
}

export interface LiveFigures {
  cpus_busy: number | null;
  instructions_per_s: number | null;
  ipc: number | null;
  llc_mpki: number | null;
  memory_bytes_per_s: number | null;
  llc_occupancy_bytes: number | null;
  threads_waiting: number | null;
}

export interface Look {
  machine: string;
  policy: string | null;
  time_s: number;
  programs: ({ program: string; processes: number; threads: number; cpus: string } & LiveFigures)[];
  threads: ({
    program: string;
    pid: number;
    tid: number;
    name: string;
    state: string;
    cpu: number | null;
    would_be_allowed_cpus: string | null;
  } & LiveFigures)[];
  llcs: ({ llc: number; cpus: string; threads: number } & LiveFigures)[];
  decisions: { at_s: number; policy: string; verdict: string; program: string; action: string; reason: string }[];
  /** What is not looked at, in CPUs; null at the first look. */
  others: { cpus_busy: number; cpus_stolen: number; cpus: number } | null;
  not_measured: string[];
  notes: string[];
  /** The daemon whose look it is, where it is one's; does it carry out what its policy decides? */
  daemon?: { pid: number; applies: boolean; no_plan: { reason: string; what: string; why: string; help: string } | null };
  /** Where viewers may act: what was done, and what the policy would do now. */
  act?: {
    revision: number;
    held: { pid: number; program: string; threads: number; cpus: string }[];
    plan: { action: string; reason: string }[];
    log: string[];
  };
}

/** An effect of an experiment, with its interval. */
export interface AbEffect {
  percent: number | null;
  low_percent: number | null;
  high_percent: number | null;
  pairs: number;
}

/** What is known after a pair of blocks. */
export interface AbPair {
  pairs: number;
  elapsed_seconds: number;
  needed_seconds: number | null;
  /** What ends it then. */
  needed_until: "precise" | "clear" | null;
  overall: AbEffect;
  programs: ({ name: string } & AbEffect)[];
}

/** An experiment as far as it is known. */
export interface AbProgress {
  about: { tried: string; against: string | null; precision_percent: number; confidence_percent: number; less_is_better: boolean };
  pairs: AbPair[];
  result: (AbPair & { ended: string; harmed: string | null; error: string | null }) | null;
}

/** A row of a sweep's results. */
export interface SweepEntry {
  machine: string;
  mix: string;
  policy: string;
  kind: string;
  seed: number | null;
  mean_slowdown: number | null;
  stp: number | null;
  unfairness: number | null;
  worst_slowdown: number | null;
  migrations: number | null;
  error: string | null;
}

export interface SweepAnswer {
  rows: SweepEntry[];
}

/** What of a question was wrong, in the server's words. */
export class Refusal extends Error {
  constructor(
    readonly part: string,
    message: string,
    readonly hints: string[],
  ) {
    super(message);
  }
}

/** The text of a file that was chosen. */
export async function textOf(file: File): Promise<string> {
  try {
    return await file.text();
  } catch {
    throw new Refusal("page", `${file.name} cannot be read: it was moved or changed since it was chosen, or is not yours to read.`, ["choose it again"]);
  }
}

const GONE = "The server does not answer: corun serve has ended or was started anew. What you see stays; " +
  "open the link that the new corun serve prints.";

export async function ask<T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(`/api/v1/${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal("server", GONE, []);
  }
  if (answer.status === 401) throw new Refusal("server", GONE, []);
  const document = await answer.json().catch(() => null);
  if (answer.ok && document !== null) return document as T;
  const fault = document?.error;
  throw new Refusal(fault?.part ?? "server", fault?.message ?? `the server answered ${answer.status}`, fault?.hints ?? []);
}

/** Runs one question at a time; of those that come meanwhile only the newest is asked next. */
export class Newest<T> {
  private running = false;
  private next: (() => Promise<T>) | null = null;
  private wanted = 0;

  constructor(
    private readonly done: (value: T) => void,
    private readonly failed: (error: unknown) => void,
  ) {}

  ask(question: () => Promise<T>) {
    this.next = question;
    if (!this.running) void this.run();
  }

  /** What was asked and not answered yet is of no use any more. */
  forget() {
    this.next = null;
    this.wanted += 1;
  }

  private async run() {
    this.running = true;
    while (this.next) {
      const question = this.next;
      const wanted = this.wanted;
      this.next = null;
      try {
        const value = await question();
        if (!this.next && wanted === this.wanted) this.done(value);
      } catch (error) {
        if (!this.next && wanted === this.wanted) this.failed(error);
      }
    }
    this.running = false;
  }
}
