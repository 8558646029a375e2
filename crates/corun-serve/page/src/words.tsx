// What the words of the page mean, for whom meets them first here.

import type { View } from "./state";

const WORDS: [string, string][] = [
  ["CPU", "what runs one program at a time: a core, or one of the hardware threads of a core, which share it."],
  ["LLC", "last-level cache: the largest cache, which the CPUs of its box share. What is not in it comes from memory, many times slower."],
  ["Ways", "the parts, all of one size, that an LLC can be divided in. A program with ways of its own keeps them."],
  ["Node, package", "a package is a chip in its socket; a node is a part of the memory with the CPUs that are near it."],
  ["Slowdown", "a program's time beside the others / its time alone on the machine's fastest CPU. 1.00 is as fast as alone."],
  ["Throughput (STP)", "the sum of 1 / slowdown over all programs: how many programs' work is done, had each the machine alone."],
  ["Unfairness", "the largest slowdown / the smallest. 1.00 is even."],
  ["IPC", "instructions per cycle: more is faster."],
  ["MPKI", "misses of the LLC per 1000 instructions: how often a program waits for memory."],
  ["Policy", "a rule by which a scheduler chooses CPUs for programs."],
];

/** Views whose words are explained. */
const EXPLAINED: View[] = ["what-if", "compare", "live"];

export function Words({ view }: { view: View }) {
  if (!EXPLAINED.includes(view)) return null;
  return (
    <details class="glossary">
      <summary>What the words mean</summary>
      <dl>
        {WORDS.map(([word, meaning]) => <div key={word}><dt>{word}</dt><dd>{meaning}</dd></div>)}
      </dl>
    </details>
  );
}
