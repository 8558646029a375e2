// What the words of the page mean, for whom meets them first here. A test holds the heads of all tables, the names of figures
// and all abbreviations against this list.

/** Words that mean the same or stand together, and what they mean. */
const WORDS: [string[], string][] = [
  [["CPU"], "what runs one program at a time: a core, or one of the hardware threads of a core, which share it."],
  [["LLC"], "last-level cache: the largest cache, which the CPUs of its box share. What is not in it comes from memory, many times slower."],
  [["LLC held"], "bytes of the LLC in which a program's data are now."],
  [["ways"], "the parts, all of one size, that an LLC can be divided in. A program with ways of its own keeps them."],
  [["node", "package"], "a package is a chip in its socket; a node is a part of the memory with the CPUs that are near it."],
  [["program"], "of Live and Recordings all processes of one name, with all their threads."],
  [["profile"], "what was recorded of a program: how often it misses in a cache, for every size of cache."],
  [["slowdown"], "a program's time beside the others / its time alone on the machine's fastest CPU. 1.00 is as fast as alone."],
  [["mean slowdown", "worst"], "of all programs: the mean of their slowdowns, and the largest."],
  [["optimum", "above the best"], "the placement of least mean slowdown, and how much larger a policy's mean slowdown is. Proven: no other placement is better."],
  [["throughput", "STP"], "the sum of 1 / slowdown over all programs: how many programs' work is done, had each the machine alone."],
  [["unfairness"], "the largest slowdown / the smallest. 1.00 is even."],
  [["frontier"], "placements than which none has more throughput without more unfairness."],
  [["IPC", "instructions"], "instructions per cycle, and instructions a second: the program's speed on its CPU."],
  [["MPKI"], "misses of the LLC per 1000 instructions: how often a program waits for memory."],
  [["traffic", "memory traffic", "MB", "GB"], "what a program reads from memory and writes to it: millions (MB/s) or thousands of millions (GB/s) of bytes a second."],
  [["CPUs busy"], "CPU time a second: 1.00 keeps one CPU busy all the time."],
  [["waiting"], "threads that are ready to run and have no CPU, on average."],
  [["policy"], "a rule by which a scheduler chooses CPUs for programs."],
  [["moves", "moves a run"], "how often a policy sends a thread to another CPU, in one run."],
  [["mix", "seed", "rows"], "of a sweep: a mix is a set of programs, a seed draws when they start, and a row is one run."],
  [["effect", "pairs"], "of an experiment: how much more a program gets done with it than without, by pairs of blocks of time, one with it and one without."],
];

export function Words() {
  return (
    <details class="glossary">
      <summary>What the words mean</summary>
      <dl>
        {WORDS.map(([words, meaning]) => <div key={words[0]}><dt>{words.join(", ")}</dt><dd>{meaning}</dd></div>)}
      </dl>
    </details>
  );
}
