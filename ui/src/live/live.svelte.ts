// For pages: the state of the connection, and a callback for each portion of events.
import type { ApiEvent } from "../api/types";
import { base } from "../router/base";
import { clock } from "./clock.svelte";
import type { FromSource, LineState } from "./messages";
import { open, type Source } from "./source";

export interface Listener {
  /** What happened, a few times a second at most. */
  events?: (events: ApiEvent[]) => void;
  /** Events were missed: read the state again. */
  resync?: () => void;
}

class Live {
  state: LineState = $state.raw({ line: "connecting", since: Date.now(), reconnects: 0, lastId: "", lastAt: 0 });
  paused = $state(false);
  /** Called when the server lets this browser read no more. */
  closed: () => void = () => {};
  private listeners = new Set<Listener>();
  private source: Source | null = null;

  start(): void {
    this.source ??= open(`${location.origin}${base}v1/events`, `penstock ${base}`, (message) => this.take(message));
    this.source.again();
  }

  /** Be told; the answer ends it. In a component: `$effect(() => live.on({ … }))`. */
  on(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  toggle(): void {
    this.paused = !this.paused;
    if (!this.paused) this.resync();
  }

  private take(message: FromSource): void {
    if (message.say === "state") {
      const back = message.state.line === "live" && this.state.line !== "live";
      const shut = message.state.line === "closed" && this.state.line !== "closed";
      this.state = message.state;
      if (shut) this.closed();
      if (back) void clock.measure();
    } else if (this.paused) return;
    else if (message.say === "resync") this.resync();
    else for (const each of this.listeners) each.events?.(message.events);
  }

  private resync(): void {
    for (const each of this.listeners) each.resync?.();
  }
}

export const live = new Live();

/** Call a function at most once per interval in milliseconds, and once more at the end. */
export function paced(milliseconds: number, call: () => unknown): () => void {
  let last = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  return () => {
    if (timer !== undefined) return;
    timer = setTimeout(() => {
      timer = undefined;
      last = Date.now();
      void call();
    }, Math.max(0, last + milliseconds - Date.now()));
  };
}
