// Which program has which colour.

/** Colours that there are. */
const COLOURS = 8;

/** Gives each program that is there a colour, one that no other has while there are enough; those that went give theirs back. */
export function givenColours(colours: Map<string, number>, programs: string[]) {
  const here = new Set(programs);
  for (const name of colours.keys()) if (!here.has(name)) colours.delete(name);
  for (const name of programs) {
    if (colours.has(name)) continue;
    const users = new Array<number>(COLOURS).fill(0);
    for (const colour of colours.values()) users[colour] += 1;
    colours.set(name, users.indexOf(Math.min(...users)));
  }
}
