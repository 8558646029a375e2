// What went wrong, where it happened.

import type { ComponentChildren } from "preact";
import { Refusal } from "./api";
import { shown } from "./figures";

export function Notice({ of }: { of: unknown }) {
  if (!of) return null;
  const refusal = of instanceof Refusal ? of : new Refusal("page", of instanceof Error ? of.message : String(of), []);
  return (
    <div class="notice" role="alert">
      <p>{shown(refusal.message)}</p>
      {refusal.hints.filter(Boolean).length > 0 && <p class="note">Try: {refusal.hints.map(shown).join("; ")}</p>}
    </div>
  );
}

export function Card({ title, id, children }: { title: string; id: string; children: ComponentChildren }) {
  return (
    <section class="card" aria-labelledby={`${id}-title`} id={id}>
      <h2 id={`${id}-title`}>{title}</h2>
      {children}
    </section>
  );
}
