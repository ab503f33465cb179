// The figures that the navigation and the overview share; read again after events, at most every two seconds.
import { get, path } from "../api/client";
import type { AlertList, Stats, System } from "../api/types";
import { live, paced } from "../live/live.svelte";

class Figures {
  stats: Stats | null = $state.raw(null);
  alerts: AlertList["alerts"] = $state.raw([]);
  system: System | null = $state.raw(null);
  problem: unknown = $state.raw(null);
  private readonly soon = paced(2000, () => this.read());

  start(): () => void {
    void this.read();
    const stop = live.on({ events: this.soon, resync: this.soon });
    // Minutes pass also where nothing happens.
    const timer = setInterval(() => document.hidden || this.soon(), 30_000);
    return () => {
      stop();
      clearInterval(timer);
    };
  }

  async read(): Promise<void> {
    try {
      const since = new Date(Date.now() - 3_600_000).toISOString();
      const [stats, { alerts }, system] = await Promise.all([
        get<Stats>(path("stats"), { since }),
        get<AlertList>(path("alerts")),
        get<System>(path("system")),
      ]);
      this.stats = stats;
      this.alerts = alerts;
      this.system = system;
      this.problem = null;
    } catch (error) {
      this.problem = error;
    }
  }
}

export const figures = new Figures();
