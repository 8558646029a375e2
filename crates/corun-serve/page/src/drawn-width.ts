// How wide a plot is drawn. A plot whose units are CSS pixels has letters of the size that the style says, on a phone too.

import { useMemo, useState } from "preact/hooks";

/** What a plot's element is given as its `ref`, and its width in CSS pixels as it changes; `first` until it is there. */
export function useDrawnWidth(first: number): [(drawn: SVGSVGElement | null) => void, number] {
  const [width, setWidth] = useState(first);
  const watch = useMemo(() => {
    let watched: ResizeObserver | null = null;
    return (drawn: SVGSVGElement | null) => {
      watched?.disconnect();
      watched = null;
      if (!drawn) return;
      const measure = () => setWidth(Math.max(1, Math.round(drawn.getBoundingClientRect().width)));
      measure();
      watched = new ResizeObserver(measure);
      watched.observe(drawn);
    };
  }, []);
  return [watch, width];
}
