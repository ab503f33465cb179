// Data that is read again: after its events, after a gap in the stream, and periodically while visible.
import { untrack } from "svelte";

import type { ApiEvent } from "../api/types";
import { live, paced } from "../live/live.svelte";

/** Read now and again; the answer ends it. In a component: `$effect(() => kept(read, (event) => …))`. */
export function kept(read: () => unknown, wanted: (event: ApiEvent) => boolean, { pace = 1500, every = 15_000 } = {}): () => void {
  let over = false;
  const soon = paced(pace, () => over || read());
  untrack(() => void read());
  const stop = live.on({ events: (events) => events.some(wanted) && soon(), resync: soon });
  const timer = setInterval(() => document.hidden || live.paused || soon(), every);
  return () => {
    over = true;
    stop();
    clearInterval(timer);
  };
}
