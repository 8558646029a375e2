// What policies go by, in a line each.

import type { PolicyEntry } from "./api";

/**
 * What a policy of a table goes by; of `a:parameter=1+b` what `a` does and what `b` does. Null where a part of the name is
 * no policy's.
 */
export function goesBy(policies: PolicyEntry[], name: string): string | null {
  const parts = name.split("+").map((part) => policies.find((one) => one.name === part.split(":")[0])?.summary);
  return parts.every((part) => part !== undefined) ? parts.join("; ") : null;
}

/** Buttons that apply a policy or a search, each with the line that says what it goes by. */
export function PolicyList({ policies, label, style, busy, apply }: {
  policies: PolicyEntry[];
  label: string;
  style?: string;
  busy: string | null;
  apply: (policy: PolicyEntry) => void;
}) {
  return (
    <ul class={`policies ${style ?? ""}`} aria-label={label}>
      {policies.map((one) => (
        <li key={one.name}>
          <button type="button" data-policy={one.name} aria-describedby={`goes-by-${one.name}`}
            title={one.source || undefined} disabled={busy !== null} aria-busy={busy === one.name} onClick={() => apply(one)}>
            {one.label}
          </button>
          <span id={`goes-by-${one.name}`} class="note">{one.summary}</span>
        </li>
      ))}
    </ul>
  );
}
