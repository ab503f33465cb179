// One job with all that belongs to it, kept up to date by its events.
import { elements, members } from "../api/exact";
import { ApiError, get, path, text } from "../api/client";
import { type AttemptList, type DefinitionVersion, type Definition, ENDED, type EventList, type ApiEvent, type JobDetail, type JobList, type Why } from "../api/types";
import { live, paced } from "../live/live.svelte";

const WAITING = new Set(["scheduled", "queued"]);

export class JobView {
  job: JobDetail | null = $state.raw(null);
  /** Payloads as the texts they are. */
  params = $state("");
  result = $state("");
  reviewData: string[] = $state.raw([]);
  attempts: AttemptList["attempts"] = $state.raw([]);
  why: Why["reasons"] = $state.raw([]);
  events: ApiEvent[] = $state.raw([]);
  children: JobList["jobs"] = $state.raw([]);
  problem: unknown = $state.raw(null);
  gone = $state(false);
  private readonly soon = paced(250, () => this.read());
  private reading = false;
  private again = false;

  constructor(readonly id: string) {}

  start(): () => void {
    void this.read();
    const stop = live.on({
      events: (events) => events.some((each) => each.jobId === this.id || each.deletedJobId === this.id) && this.soon(),
      resync: this.soon,
    });
    // What keeps a job from running changes without an event of its own.
    const timer = setInterval(() => {
      if (!document.hidden && this.job !== null && WAITING.has(this.job.status)) void this.readWhy();
    }, 5000);
    return () => {
      stop();
      clearInterval(timer);
    };
  }

  async read(): Promise<void> {
    if (this.reading) {
      this.again = true;
      return;
    }
    this.reading = true;
    try {
      const told = await text("GET", path("jobs", this.id));
      const parts = members(told);
      const job = JSON.parse(told) as JobDetail;
      const attempts = await get<AttemptList>(path("jobs", this.id, "attempts"));
      this.params = parts.get("params") ?? "null";
      this.result = parts.get("result") ?? "null";
      this.reviewData = elements(parts.get("reviews") ?? "[]").map((each) => members(each).get("data") ?? "null");
      this.attempts = attempts.attempts;
      this.job = job;
      this.problem = null;
      await Promise.all([this.readWhy(), this.readEvents(), this.readChildren()]);
    } catch (error) {
      if (error instanceof ApiError && error.status === 404 && this.job !== null) this.gone = true;
      else this.problem = error;
    } finally {
      this.reading = false;
      if (this.again) {
        this.again = false;
        this.soon();
      }
    }
  }

  /** The version of the definition that the job was made for, when it is still known. */
  async version(): Promise<DefinitionVersion | null> {
    if (this.job === null) return null;
    const { definitionKey, definitionVersion } = this.job;
    try {
      const definition = await get<Definition>(path("definitions", definitionKey));
      return definition.versions.find((each) => each.version === definitionVersion) ?? definition.versions[0] ?? null;
    } catch {
      return null;
    }
  }

  private async readWhy(): Promise<void> {
    if (this.job === null || ENDED.has(this.job.status)) this.why = [];
    else this.why = (await get<Why>(path("jobs", this.id, "why"))).reasons;
  }

  private async readEvents(): Promise<void> {
    let after = String(this.events.at(-1)?.seq ?? 0);
    for (;;) {
      const page = await get<EventList>(path("jobs", this.id, "events"), { after, limit: 500 });
      this.events = [...this.events, ...page.events].slice(-5000);
      if (!page.more || page.nextCursor === after) return;
      after = page.nextCursor;
    }
  }

  private async readChildren(): Promise<void> {
    this.children = (await get<JobList>(path("jobs"), { parentId: this.id, limit: 50 })).jobs;
  }
}
