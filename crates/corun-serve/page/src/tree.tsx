// The machine as it is built, with who is where.

import type { ComponentChildren } from "preact";
import { memo } from "preact/compat";
import { useMemo } from "preact/hooks";
import type { Drawing, Traffic } from "./api";
import { size, traffic } from "./figures";

/** The CPUs of a machine by package, node, LLC and core. */
interface Branches {
  package: number;
  node: number;
  llcs: { llc: number; cores: { core: number; cpus: Drawing["cpus"] }[] }[];
}

function branches(drawing: Drawing): Branches[] {
  const found: Branches[] = [];
  for (const cpu of drawing.cpus) {
    let branch = found.find((one) => one.package === cpu.package && one.node === cpu.node);
    if (!branch) found.push((branch = { package: cpu.package, node: cpu.node, llcs: [] }));
    let llc = branch.llcs.find((one) => one.llc === cpu.llc);
    if (!llc) branch.llcs.push((llc = { llc: cpu.llc, cores: [] }));
    let core = llc.cores.find((one) => one.core === cpu.core);
    if (!core) llc.cores.push((core = { core: cpu.core, cpus: [] }));
    core.cpus.push(cpu);
  }
  return found;
}

/** How far each bandwidth domain is filled. */
export const MemoryBars = memo(function MemoryBars({ traffic: loads, drawing }: { traffic: Traffic[]; drawing: Drawing }) {
  if (loads.length === 0) return <p class="note">The machine does not say how fast its memory is.</p>;
  return (
    <ul class="domains">
      {loads.map((load, place) => {
        const share = load.mb_per_s / load.peak_mb_per_s;
        const kind = drawing.bandwidth[place]?.kind.replaceAll("-", " ") ?? "";
        return (
          <li key={load.name}>
            <span class="domain-name">
              {load.name} <span class="note">{kind}</span>
            </span>
            <span class="track" aria-hidden="true">
              <span class={`fill ${share > 0.8 ? "full" : ""}`} style={{ width: `${Math.min(100, 100 * share)}%` }} />
            </span>
            <span class="domain-load">
              {traffic(load.mb_per_s)} of {traffic(load.peak_mb_per_s)}, <strong>{Math.round(100 * share)} %</strong>
            </span>
          </li>
        );
      })}
    </ul>
  );
});

/** The tree; `slot` draws what is on a CPU, `cache` what an LLC's head has beside its name. */
export function Tree({
  drawing,
  slot,
  cache,
  heat,
}: {
  drawing: Drawing;
  slot: (cpu: number) => ComponentChildren;
  cache: (llc: number) => ComponentChildren;
  heat?: (llc: number) => string;
}) {
  const all = useMemo(() => branches(drawing), [drawing]);
  const types = drawing.core_types.length > 1;
  const dense = drawing.cpus.length > 48;
  return (
    <div class={`tree ${dense ? "dense" : ""}`}>
      {all.map((branch) => (
        <div class="package" key={`${branch.package}.${branch.node}`}>
          <h3>
            Package {drawing.packages[branch.package]}
            {drawing.nodes.length > 1 && <span class="note">node {drawing.nodes[branch.node].os_index}</span>}
          </h3>
          <div class="llcs">
            {branch.llcs.map(({ llc, cores }) => {
              const { size_bytes: bytes, ways, level } = drawing.llcs[llc];
              return (
                <div class={`llc ${heat?.(llc) ?? ""}`} key={llc} role="group" aria-label={`LLC ${llc}`}>
                  <div class="llc-head">
                    <strong>LLC {llc}</strong>
                    <span class="note">
                      {level !== null && `L${level}`}
                      {bytes !== null && `, ${size(bytes)}`}
                      {ways !== null && `, ${ways} ways`}
                    </span>
                  </div>
                  {cache(llc)}
                  <div class="cores">
                    {cores.map(({ core, cpus }) => (
                      <div class={`core ${cpus.length > 1 ? "threads" : ""}`} key={core}>
                        {(types || cpus.length > 1) && !dense && (
                          <span class="core-name">
                            core {core}
                            {types && ` (${drawing.core_types[cpus[0].core_type]})`}
                          </span>
                        )}
                        <div class="slots">{cpus.map((cpu) => slot(cpu.id))}</div>
                      </div>
                    ))}
                  </div>
                </div>
              );
            })}
          </div>
        </div>
      ))}
    </div>
  );
}

/** Where an element is on the page, whether or not it still slides there. */
function settled(element: HTMLElement): { x: number; y: number } {
  const at = { x: 0, y: 0 };
  for (let one: HTMLElement | null = element; one; one = one.offsetParent as HTMLElement | null) {
    at.x += one.offsetLeft;
    at.y += one.offsetTop;
  }
  return at;
}

/** Lets what moved since the last drawing slide from where it was: elements by their `data-moves`. */
export class Slides {
  private before = new Map<string, { x: number; y: number }>();

  run(root: HTMLElement | null, animate: boolean) {
    if (!root) return;
    const now = new Map<string, { x: number; y: number }>();
    const before = this.before;
    this.before = now;
    // To ask where elements are makes the browser lay out the page at once.
    if (!animate || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const elements = root.querySelectorAll<HTMLElement>("[data-moves]");
    for (const element of elements) now.set(element.dataset.moves!, settled(element));
    for (const element of elements) {
      const from = before.get(element.dataset.moves!);
      const to = now.get(element.dataset.moves!)!;
      if (from && (Math.abs(from.x - to.x) > 1 || Math.abs(from.y - to.y) > 1)) {
        element.animate(
          [{ transform: `translate(${from.x - to.x}px, ${from.y - to.y}px)`, zIndex: 5 }, { transform: "none", zIndex: 5 }],
          { duration: 450, easing: "cubic-bezier(.3,.7,.2,1)" },
        );
      }
    }
  }
}
