// What travels between the one connection of a browser and its tabs.
import type { ApiEvent } from "../api/types";

/** connecting: not yet; live; restarting: the server said goodbye; offline: it does not answer; closed: signed out. */
export type Line = "connecting" | "live" | "restarting" | "offline" | "closed";

export interface LineState {
  line: Line;
  /** Milliseconds of this machine's clock. */
  since: number;
  reconnects: number;
  lastId: string;
  lastAt: number;
}

export type FromSource =
  | { say: "state"; state: LineState }
  | { say: "events"; events: ApiEvent[] }
  /** Events were missed: read everything again. */
  | { say: "resync" };

export type ToSource = { ask: "open"; url: string } | { ask: "again" } | { ask: "leave" } | { ask: "state" };
