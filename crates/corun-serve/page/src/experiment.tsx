// An experiment of corun ab as it comes in.

import { useEffect, useState } from "preact/hooks";
import type { AbEffect, AbPair, AbProgress } from "./api";
import { counted, shown } from "./figures";
import { Notice } from "./notice";
import { EffectPlot } from "./plots";
import { follow } from "./stream";

/** Why an experiment ended, for people. */
const ENDED: Record<string, string> = {
  precise: "The effect is known as precisely as was asked.",
  clear: "The effect is surely above or surely below zero.",
  harm: "Stopped: a program lost too much.",
  collapse: "Stopped: a program lost too much in a single block.",
  time: "The longest time has passed.",
  over: "A program ended by itself.",
  interrupted: "The user stopped it.",
  failed: "Something went wrong.",
};

export function Experiment() {
  const [known, setKnown] = useState<AbProgress | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  useEffect(
    () =>
      follow<AbProgress & { away?: string }>(
        "/api/v1/experiment",
        (found) => {
          setFault(found.away ?? null);
          if (found.away === undefined) setKnown(found);
          return true;
        },
        () => setFault("The server does not answer; what was known last stays. Trying again…"),
      ),
    [],
  );
  return (
    <section class="card experiment" aria-labelledby="experiment-title">
      <h2 id="experiment-title">Experiment</h2>
      {fault && <Notice of={fault} />}
      {!known && !fault && <p class="empty" role="status">Waiting for the experiment…</p>}
      {known && <Known known={known} />}
    </section>
  );
}

function Known({ known }: { known: AbProgress }) {
  const { about, pairs, result } = known;
  const newest: AbPair | null = result ?? pairs[pairs.length - 1] ?? null;
  const programs = newest?.programs ?? [];
  return (
    <>
      <p class="how">
        <strong>{shown(about.tried)}</strong> on and off by turns{about.against && `, against the same by ${shown(about.against)}`}.{" "}
        {about.less_is_better ? "Less is better" : "More is better"}; intervals are {about.confidence_percent} % sure at every moment.
      </p>
      <p role="status">
        {newest === null ? "No pair of blocks is over yet." : <>
          {counted(newest.pairs, "pair")} in {time(newest.elapsed_seconds)}: <strong>{effect(newest.overall)}</strong>.{" "}
          {result ? ENDED[result.ended] ?? shown(result.ended)
            : newest.needed_seconds === null ? "How long it takes cannot be told yet."
              : `Some ${time(newest.needed_seconds)} more ${newest.needed_until === "clear" ? "until its sign is clear" : `to know it to ${about.precision_percent} %`}.`}
          {result?.harmed && ` It was ${shown(result.harmed)}.`}{result?.error && ` ${shown(result.error)}`}
        </>}
      </p>
      {pairs.length > 1 && <EffectPlot pairs={pairs} />}
      {programs.length > 1 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="The effect on each program">
          <table>
            <thead><tr><th scope="col">program</th><th scope="col" class="n">effect</th><th scope="col" class="n">from</th><th scope="col" class="n">to</th><th scope="col" class="n">pairs</th></tr></thead>
            <tbody>{programs.map((one) => (
              <tr key={one.name}><th scope="row">{shown(one.name)}</th><td class="n">{percent(one.percent)}</td><td class="n">{percent(one.low_percent)}</td><td class="n">{percent(one.high_percent)}</td><td class="n">{one.pairs}</td></tr>
            ))}</tbody>
          </table>
        </div>
      )}
    </>
  );
}

const percent = (value: number | null) => (value === null ? "?" : `${value > 0 ? "+" : ""}${value.toFixed(1).replace("-", "−")} %`);

const effect = (of: AbEffect) =>
  of.low_percent === null || of.high_percent === null ? percent(of.percent) : `${percent(of.percent)} (${percent(of.low_percent)} to ${percent(of.high_percent)})`;

const time = (seconds: number) => (seconds < 120 ? `${seconds.toFixed(0)} s` : seconds < 7200 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(1)} h`);
