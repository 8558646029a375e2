// Figures as people read them, and the colours that stand for them.

export const times = (value: number) => value.toFixed(2);

export const fixed = (value: number | null | undefined, decimals: number) =>
  value === null || value === undefined ? "–" : value.toFixed(decimals);

export const counted = (count: number, one: string, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

/** `CPU 3`, `CPUs 0-3,8`. */
export const cpusOf = (list: string) => `${/[-,]/.test(list) ? "CPUs" : "CPU"} ${list}`;

export function size(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit + 1 < units.length) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toFixed(1).replace(/\.0$/, "")} ${units[unit]}`;
}

export function traffic(mbPerS: number): string {
  return mbPerS >= 1000 ? `${(mbPerS / 1000).toFixed(1)} GB/s` : `${mbPerS.toFixed(0)} MB/s`;
}

/** `62 %` of a part of 1, which no line's end divides. */
export const share = (part: number) => `${Math.round(100 * part)}\u00a0%`;

/** `1.25 G/s`, a number of events a second. */
export function perSecond(value: number): string {
  if (value === 0) return "0/s";
  const units = ["", "k", "M", "G"];
  let unit = 0;
  while (value >= 1000 && unit + 1 < units.length) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toFixed(2)} ${units[unit]}/s`;
}

/** `−3.2 %`. */
export function percent(value: number): string {
  const text = Math.abs(value).toFixed(1);
  if (text === "0.0") return "±0 %";
  return `${value < 0 ? "−" : "+"}${text} %`;
}

/** `−3.2 %`, against a figure before. */
export const change = (now: number, before: number): string => percent((100 * (now - before)) / before);

/** A slowdown's colour on the report's scale: below 1.1, 1.3, 1.6, and above. */
export function heat(slowdown: number): string {
  if (slowdown < 1.1) return "h0";
  if (slowdown < 1.3) return "h1";
  return slowdown < 1.6 ? "h2" : "h3";
}

/** Names come from files and processes: characters that steer a terminal or the direction of text are shown. */
export function shown(name: string): string {
  return name.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\u{fffd}");
}
