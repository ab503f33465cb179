// One schedule with its ticks, those to come and those that were; kept up to date.
import { ApiError, get, json, path, text } from "../../api/client";
import { members } from "../../api/exact";
import type { JobStarted, Preview, Schedule, TickList } from "../../api/types";
import { kept } from "../../data/kept";

const SHOWN = 10;

/** A schedule, its parameters as the text they are. */
export interface Stored {
  schedule: Schedule;
  params: string;
}

export function stored(told: string): Stored {
  return { schedule: JSON.parse(told) as Schedule, params: members(told).get("params") ?? "{}" };
}

export class ScheduleView {
  schedule: Schedule | null = $state.raw(null);
  params = $state("{}");
  preview: Preview | null = $state.raw(null);
  ticks: TickList["ticks"] = $state.raw([]);
  problem: unknown = $state.raw(null);
  gone = $state(false);

  constructor(readonly key: string) {}

  start(): () => void {
    return kept(() => this.read(), (event) => event.subject === this.key || (event.type !== "job.progress" && event.job?.scheduleId === this.key));
  }

  async read(): Promise<void> {
    try {
      const [told, preview, { ticks }] = await Promise.all([
        text("GET", path("schedules", this.key)),
        // One that cannot be read has no ticks to come, and says itself what is wrong.
        get<Preview>(path("schedules", this.key, "preview"), { count: SHOWN }).catch(() => null),
        get<TickList>(path("schedules", this.key, "ticks"), { limit: 50 }),
      ]);
      this.take(told);
      this.preview = preview;
      this.ticks = ticks;
      this.problem = null;
      this.gone = false;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404 && this.schedule !== null) this.gone = true;
      else this.problem = error;
    }
  }

  take(told: string): void {
    const found = stored(told);
    this.params = found.params;
    this.schedule = found.schedule;
  }

  async change(verb: "pause" | "resume", body?: unknown): Promise<void> {
    this.take(await text("POST", path("schedules", this.key, verb), { body }));
    await this.read();
  }

  trigger(): Promise<JobStarted> {
    return json<JobStarted>("POST", path("schedules", this.key, "trigger"));
  }

  remove(): Promise<null> {
    return json<null>("DELETE", path("schedules", this.key), { revision: this.schedule?.revision });
  }
}
