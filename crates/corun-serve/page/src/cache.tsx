// An LLC's head: who holds how much of it, and its ways where it is divided.

import { useRef } from "preact/hooks";
import type { Explained } from "./api";
import { shown, size } from "./figures";
import type { Layout, Machine, Segment } from "./layout";

export function Cache({
  machine,
  llc,
  layout,
  explained,
  looked,
  tryOut,
  commit,
}: {
  machine: Machine;
  llc: number;
  layout: Layout;
  explained: Explained | null;
  looked: number | null;
  tryOut: (layout: Layout | null) => void;
  commit: (layout: Layout) => void;
}) {
  const { size_bytes: bytes, ways } = machine.drawing.llcs[llc];
  const programs = machine.under(layout, llc);
  const segments = machine.segments(layout, llc);
  if (programs.length === 0 || bytes === null) return null;
  const name = (program: number) => shown(explained?.placement.apps[program] ?? "");
  const held = (program: number) => explained?.placement.programs[program]?.llc_occupancy_bytes ?? 0;
  const part = (program: number) => (
    <span
      key={program}
      class={`held l${program % 8} ${program === looked ? "looked" : ""}`}
      style={{ width: `${Math.min(100, (100 * held(program)) / bytes)}%` }}
      title={`${name(program)} holds ${size(held(program))}`}
    />
  );
  const words = programs.map((program) => `${name(program)} holds ${size(held(program))}`).join(", ");
  const canDivide = ways !== null && programs.length <= ways;
  return (
    <div class="cache">
      {segments.length === 0 ? (
        <div class="holdings" role="img" aria-label={words}>{programs.map(part)}</div>
      ) : (
        <Ways {...{ machine, llc, layout, segments, tryOut, commit, name, held }} bytes={bytes} ways={ways ?? 1} />
      )}
      {canDivide && (
        <button type="button" class="quiet" onClick={() => commit(segments.length ? machine.whole(layout, llc) : machine.divided(layout, llc))}
          title={segments.length ? "Let all programs here share all ways" : "Give each program here ways of its own, then drag their boundaries"}>
          {segments.length ? "share ways" : "divide ways"}
          <span class="visually-hidden"> of LLC {llc}</span>
        </button>
      )}
    </div>
  );
}

function Ways({
  machine,
  llc,
  layout,
  segments,
  tryOut,
  commit,
  name,
  held,
  bytes,
  ways,
}: {
  machine: Machine;
  llc: number;
  layout: Layout;
  segments: Segment[];
  tryOut: (layout: Layout | null) => void;
  commit: (layout: Layout) => void;
  name: (program: number) => string;
  held: (program: number) => number;
  bytes: number;
  ways: number;
}) {
  const strip = useRef<HTMLDivElement>(null);
  const dragged = useRef<Layout | null>(null);
  /** The layout with the boundary between this part and the next at a way. */
  const at = (place: number, way: number): Layout => {
    const [below, above] = [segments[place], segments[place + 1]];
    const bound = Math.max(below.low + 1, Math.min(above.high - 1, way));
    const moved = segments.map((one, other) =>
      other === place ? { ...one, high: bound } : other === place + 1 ? { ...one, low: bound } : one,
    );
    return machine.withSegments(layout, moved);
  };
  const wayAt = (event: PointerEvent) => {
    const box = strip.current!.getBoundingClientRect();
    return Math.round(((event.clientX - box.left) / box.width) * ways);
  };
  return (
    <div class="ways" ref={strip}>
      {segments.map((segment) => (
        <span key={segment.programs.join()} class="part"
          style={{ left: `${(100 * segment.low) / ways}%`, width: `${(100 * (segment.high - segment.low)) / ways}%` }}
          title={`${segment.programs.map(name).join(", ")}: ${segment.high - segment.low} of ${ways} ways`}>
          {segment.programs.map((program) => (
            <span key={program} class={`held l${program % 8}`}
              style={{ width: `${Math.min(100, (100 * held(program)) / ((bytes * (segment.high - segment.low)) / ways))}%` }} />
          ))}
        </span>
      ))}
      {segments.slice(0, -1).map((segment, place) => {
        const above = segments[place + 1];
        const label = `Ways of LLC ${llc} between ${segment.programs.map(name).join(", ")} and ${above.programs.map(name).join(", ")}`;
        return (
          <span key={place} class="boundary" role="slider" tabIndex={0} aria-label={label} aria-orientation="horizontal"
            aria-valuemin={segment.low + 1} aria-valuemax={above.high - 1} aria-valuenow={segment.high}
            aria-valuetext={`${segment.high - segment.low} ways below, ${above.high - above.low} above`}
            style={{ left: `${(100 * segment.high) / ways}%` }}
            onKeyDown={(event) => {
              const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
              if (step === undefined) return;
              event.preventDefault();
              commit(at(place, segment.high + step));
            }}
            onPointerDown={(event) => {
              event.preventDefault();
              event.currentTarget.setPointerCapture(event.pointerId);
              event.currentTarget.focus();
              dragged.current = layout;
            }}
            onPointerMove={(event) => {
              if (!dragged.current) return;
              const next = at(place, wayAt(event));
              if (next.mask?.join() !== dragged.current.mask?.join()) {
                dragged.current = next;
                tryOut(next);
              }
            }}
            onPointerUp={() => {
              const last = dragged.current;
              dragged.current = null;
              tryOut(null);
              if (last) commit(last);
            }}
            onPointerCancel={() => {
              dragged.current = null;
              tryOut(null);
            }}
          />
        );
      })}
    </div>
  );
}
