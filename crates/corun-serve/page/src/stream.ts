// A stream of the server, followed while somebody sees the page.

/** Between these, a stream that broke is opened again. */
const AGAIN_MS = 3000;

/**
 * Follows a stream of JSON documents; what it gives ends that. `take` says whether more is wanted, and `broken` is
 * called when the server does not answer.
 */
export function follow<T>(path: string, take: (found: T) => boolean, broken: () => void): () => void {
  let source: EventSource | null = null;
  let again = 0;
  const close = () => {
    clearTimeout(again);
    source?.close();
  };
  const open = () => {
    source = new EventSource(path);
    source.onmessage = (event) => {
      if (!take(JSON.parse(event.data) as T)) source?.close();
    };
    source.onerror = () => {
      broken();
      source?.close();
      again = window.setTimeout(open, AGAIN_MS);
    };
  };
  // A tab that nobody sees asks for nothing.
  const seen = () => {
    close();
    if (!document.hidden) open();
  };
  seen();
  document.addEventListener("visibilitychange", seen);
  return () => {
    document.removeEventListener("visibilitychange", seen);
    close();
  };
}
