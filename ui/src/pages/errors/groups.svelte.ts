// Failures that look alike, the newest first, since a time that is moved on with the clock.
import { get, path } from "../../api/client";
import type { ErrorGroup, ErrorList } from "../../api/types";
import { kept } from "../../data/kept";
import { clock } from "../../live/clock.svelte";

export interface Window {
  name: string;
  label: string;
  seconds: number;
}

export const WINDOWS: readonly Window[] = [
  { name: "1h", label: "Last hour", seconds: 3600 },
  { name: "24h", label: "Last 24 hours", seconds: 86_400 },
  { name: "7d", label: "Last 7 days", seconds: 7 * 86_400 },
  { name: "30d", label: "Last 30 days", seconds: 30 * 86_400 },
];

const FAILING = new Set(["job.failed", "job.retrying", "job.lost", "job.deleted"]);

export class ErrorGroups {
  rows: ErrorGroup[] = $state.raw([]);
  more = $state(false);
  capped = $state(false);
  loaded = $state(false);
  from = $state(0);
  problem: unknown = $state.raw(null);
  private pages = 1;
  private generation = 0;

  constructor(readonly window: Window) {}

  start(): () => void {
    const stop = kept(() => this.read(), (event) => FAILING.has(event.type), { pace: 2000, every: 30_000 });
    return () => {
      this.generation++;
      stop();
    };
  }

  /** Another page, which later refreshes include. */
  async next(): Promise<void> {
    this.pages++;
    await this.read();
  }

  async read(): Promise<void> {
    const mine = ++this.generation;
    const from = clock.read() - this.window.seconds * 1000;
    const since = new Date(from).toISOString();
    try {
      const rows: ErrorGroup[] = [];
      let cursor: string | null = null;
      for (let page = 0; page < this.pages; page++) {
        const found: ErrorList = await get<ErrorList>(path("errors"), { since, limit: 50, cursor });
        rows.push(...found.errors);
        cursor = found.nextCursor;
        this.capped = found.capped;
        if (cursor === null) break;
      }
      if (mine !== this.generation) return;
      this.rows = rows;
      this.more = cursor !== null;
      this.from = from;
      this.problem = null;
    } catch (error) {
      if (mine === this.generation) this.problem = error;
    }
    this.loaded = true;
  }
}

/** The same error of two definitions is two groups. */
export const nameOf = (group: ErrorGroup) => `${group.fingerprint} ${group.definitionKey}`;
