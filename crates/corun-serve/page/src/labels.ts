// Where names stand in a plot, so that they cross neither lines nor marks nor each other.

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export interface Label {
  name: string;
  x: number;
  y: number;
  anchor: "start" | "middle" | "end";
}

/** A letter's mean width and a line's height at the plots' 12 px. */
const LETTER = 6.7;
const LINE = 14;

/** From a mark: where a name's base line begins, is centred or ends, the most usual first. */
const OFFSETS: [number, number, Label["anchor"]][] = [
  [11, 4, "start"], [-11, 4, "end"], [0, -11, "middle"], [0, 20, "middle"],
  [8, -9, "start"], [8, 18, "start"], [-8, -9, "end"], [-8, 18, "end"],
  [18, -20, "start"], [18, 28, "start"], [-18, -20, "end"], [-18, 28, "end"],
];

export const around = (x: number, y: number, reach: number): Box => ({ left: x - reach, top: y - reach, right: x + reach, bottom: y + reach });

const common = (one: Box, other: Box) =>
  Math.max(0, Math.min(one.right, other.right) - Math.max(one.left, other.left)) *
  Math.max(0, Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top));

const boxOf = ({ name, x, y, anchor }: Label): Box => {
  const wide = LETTER * name.length;
  const left = anchor === "start" ? x : anchor === "end" ? x - wide : x - wide / 2;
  return { left, top: y - LINE + 3, right: left + wide, bottom: y + 3 };
};

/** Each mark's name where it covers least of `drawn` and of the names before it, and does not leave the frame. */
export function labels(marks: { name: string; x: number; y: number }[], drawn: Box[], frame: Box): Label[] {
  const taken = [...drawn];
  return marks.map(({ name, x, y }) => {
    const hidden = (label: Label) => {
      const box = boxOf(label);
      const outside = (box.right - box.left) * LINE - common(box, frame);
      return 100 * outside + taken.reduce((sum, one) => sum + common(box, one), 0);
    };
    const places = OFFSETS.map(([right, down, anchor]): Label => ({ name, x: x + right, y: y + down, anchor }));
    const best = places.reduce((one, other) => (hidden(other) < hidden(one) ? other : one));
    taken.push(boxOf(best));
    return best;
  });
}
