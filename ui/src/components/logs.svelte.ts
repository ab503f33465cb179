// The lines of one job: all that there are, then those that come.
import { get, path } from "../api/client";
import type { LogLine, LogList } from "../api/types";

const PAGE = 500;
const MOST = 100_000;

export interface LogFilter {
  level: string;
  phase: string;
  attempt: string;
}

export class Logs {
  lines: LogLine[] = $state.raw([]);
  /** Whether there are more lines than are kept here. */
  cut = $state(false);
  problem: unknown = $state.raw(null);
  private reading: Promise<void> | null = null;
  private after = 0;
  private stopped = false;

  constructor(
    private readonly jobId: string,
    private readonly filter: LogFilter,
  ) {}

  /** Read the lines after the last one; concurrent calls become one. */
  read(): Promise<void> {
    this.reading ??= this.readOn().finally(() => (this.reading = null));
    return this.reading;
  }

  stop(): void {
    this.stopped = true;
  }

  private async readOn(): Promise<void> {
    try {
      for (;;) {
        const page = await get<LogList>(path("jobs", this.jobId, "logs"), { ...this.filter, after: this.after, limit: PAGE });
        if (this.stopped) return;
        const last = page.logs.at(-1);
        if (last === undefined) return;
        this.after = last.seq;
        const all = [...this.lines, ...page.logs];
        this.cut ||= all.length > MOST;
        this.lines = all.slice(-MOST);
        this.problem = null;
        if (page.nextAfter === null) return;
      }
    } catch (error) {
      this.problem = error;
    }
  }
}
