// The server's clock: durations are never counted from this machine's own.
import { get, path } from "../api/client";
import type { System } from "../api/types";

class Clock {
  /** Milliseconds of the server's time, moved on once a second while the page is seen. */
  now = $state(Date.now());
  private offset = 0;

  start(): void {
    setInterval(() => {
      if (!document.hidden) this.now = this.read();
    }, 1000);
    setInterval(() => void this.measure(), 300_000);
    document.addEventListener("visibilitychange", () => (this.now = this.read()));
  }

  read(): number {
    return Date.now() + this.offset;
  }

  async measure(): Promise<void> {
    try {
      const asked = Date.now();
      const { now } = await get<System>(path("system"));
      this.offset = Date.parse(now) - (asked + Date.now()) / 2;
      this.now = this.read();
    } catch {
      // The next reconnect measures again.
    }
  }
}

export const clock = new Clock();
