// The page's answer in words.

import type { Move } from "./api";
import { change, share, shown, times, traffic } from "./figures";
import { reasons, type Props } from "./panel";

/** Who slows the program down most, and with what; null where nobody does. */
function culprit({ explained: { placement }, details, program, machine, layout }: Props) {
  const worst = details?.slowed_by?.[0];
  if (!worst || worst.factor <= 1.005) return null;
  const [here, there] = [program, worst.program].map((one) => machine.byId.get(layout.cpu[one])!);
  const figures = placement.programs[worst.program];
  const cache = machine.drawing.llcs[there.llc].size_bytes;
  const how =
    here.core === there.core ? "runs on the same core" :
    here.llc === there.llc && cache !== null ? `holds ${share(figures.llc_occupancy_bytes / cache)} of the same LLC` :
    `takes ${traffic(figures.bandwidth_mb_per_s)} of memory traffic`;
  return { name: shown(placement.apps[worst.program]), how, less: share(1 - 1 / worst.factor) };
}

/** With whom a program would best change places: of the exchanges that help it, the one after which the mean is least. */
function Exchange({ explained: { placement }, machine, among }: Props & { among: Move[] }) {
  const swaps = among.filter((one) => one.with !== null);
  const best = swaps.reduce<Move | null>((least, one) => (least && least.antt <= one.antt ? least : one), null);
  if (!best) return <>Changing places with another program would not help it either.</>;
  return (
    <>
      Best exchange: with <strong>{shown(placement.apps[best.with!])} on CPU {best.cpu} under LLC {machine.llcOf(best.cpu)}, {times(best.slowdown)} times</strong>;
      {" "}the mean of all changes by {change(best.antt, placement.antt ?? 1)}.
    </>
  );
}

/** Why a program is as slow as it is and where it is better off, in words that need nothing else of the page. */
export function Answer(props: Props) {
  const main = reasons(props)[0];
  const because = main.factor > 1.01 ? main.clause : null;
  const { explained: { placement }, details, program, machine } = props;
  const name = shown(placement.apps[program]);
  const slowdown = placement.slowdown[program];
  const worst = culprit(props);
  const free = details?.moves.filter((one) => one.with === null) ?? [];
  const best = free.reduce<Move | null>((least, one) => (least && least.slowdown <= one.slowdown ? least : one), null);
  const isBetter = (one: Move) => one.slowdown < slowdown - 0.005;
  const isFull = machine.drawing.cpus.length === placement.cpu.length;
  return (
    <section class="card answer" aria-labelledby="answer-title">
      <h2 id="answer-title">{slowdown < 1.005 ? `Is ${name} slow?` : `Why is ${name} slow, and where is it better?`}</h2>
      <p class="lead in-words">
      {slowdown < 1.005 ? (
        <><strong>{name}</strong> runs as fast as alone on this machine.</>
      ) : (
        <><strong>{name}</strong> takes <strong>{times(slowdown)} times</strong> as long as alone{because && <>, mostly because {because}</>}.</>
      )}{" "}
      Its misses and others' traffic keep it waiting for memory {share(placement.programs[program].memory_stall_share)} of its time.{" "}
      {worst && <><strong>{worst.name}</strong> {worst.how}: without it, {name} would take {worst.less} less time. </>}
      {slowdown >= 1.005 && details && (best && isBetter(best) ? (
        <>Best free place: <strong>CPU {best.cpu} under LLC {machine.llcOf(best.cpu)}, {times(best.slowdown)} times</strong>.</>
      ) : (
        <>{isFull ? "No CPU is free." : "No free CPU is better for it."} <Exchange {...props} among={details.moves.filter(isBetter)} /></>
      ))}
      {placement.programs[program].extrapolated && <span class="note"> A figure was read outside the profile's measured range.</span>}
      </p>
    </section>
  );
}
