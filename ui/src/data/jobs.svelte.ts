// A list of jobs that changes under one's eyes without jumping: rows are patched by id, new ones wait to be let in.
import { get, path } from "../api/client";
import type { ApiEvent, Job, JobList } from "../api/types";
import { searches } from "../components/filters";
import { live, paced } from "../live/live.svelte";

const PAGE = 100;

export class Jobs {
  rows: Job[] = $state.raw([]);
  count: number | null = $state(null);
  capped = $state(false);
  /** How many jobs have come since the list was read. */
  fresh = $state(0);
  loaded = $state(false);
  problem: unknown = $state.raw(null);
  /** How many jobs a search has looked through. */
  searched = $state(0);
  private cursor: string | null = $state(null);
  private readonly freshIds = new Set<string>();
  private readonly known = new Set<string>();
  private generation = 0;
  private loading = false;
  private readonly soon = paced(1000, () => this.read());

  /** `calm` says whether the list may be refreshed automatically: unscrolled, nothing selected. */
  constructor(
    private readonly query: URLSearchParams,
    private readonly sort: string,
    private readonly calm: () => boolean,
    private readonly counted = true,
  ) {}

  /** Read it and keep it up to date; the answer ends that. */
  start(): () => void {
    void this.read();
    const stop = live.on({ events: (events) => this.take(events), resync: this.soon });
    return () => {
      this.generation++;
      stop();
    };
  }

  async read(): Promise<void> {
    const mine = ++this.generation;
    try {
      const page = await this.page(null, this.counted);
      if (mine !== this.generation) return;
      const longer = this.rows.length > page.jobs.length && page.nextCursor !== null && !this.calm();
      if (longer) this.rows = this.patched(page.jobs);
      else {
        this.rows = page.jobs;
        this.cursor = page.nextCursor;
        this.searched = page.searched ?? 0;
      }
      for (const each of page.jobs) this.known.add(each.jobId);
      this.count = page.count ?? null;
      this.capped = page.countCapped ?? false;
      this.freshIds.clear();
      this.fresh = 0;
      this.problem = null;
    } catch (error) {
      if (mine === this.generation) this.problem = error;
    }
    this.loaded = true;
  }

  /** Whether there is another page. */
  get further(): boolean {
    return this.cursor !== null;
  }

  /** The next page, when there is one. */
  async more(): Promise<void> {
    if (this.loading || this.cursor === null) return;
    this.loading = true;
    const mine = this.generation;
    try {
      const page = await this.page(this.cursor, false);
      if (mine !== this.generation) return;
      const there = new Set(this.rows.map((each) => each.jobId));
      this.rows = [...this.rows, ...page.jobs.filter((each) => !there.has(each.jobId))];
      for (const each of page.jobs) this.known.add(each.jobId);
      this.cursor = page.nextCursor;
      this.searched += page.searched ?? 0;
    } catch (error) {
      this.problem = error;
    } finally {
      this.loading = false;
    }
  }

  private page(cursor: string | null, counted: boolean): Promise<JobList> {
    const query = new URLSearchParams(this.query);
    query.set("sort", this.sort);
    query.set("limit", String(PAGE));
    if (counted) query.set("count", "true");
    if (cursor !== null) query.set("cursor", cursor);
    return get<JobList>(path("jobs"), query);
  }

  private take(events: ApiEvent[]): void {
    const changed = new Map<string, Job>();
    let gone = false;
    for (const each of events) {
      if (each.job !== null) changed.set(each.job.jobId, each.job);
      else if (each.deletedJobId !== null) gone = true;
    }
    if (changed.size === 0 && !gone) return;
    this.rows = this.patched([...changed.values()]);
    for (const [id, job] of changed) if (!this.known.has(id) && this.matches(job)) this.freshIds.add(id);
    this.fresh = this.freshIds.size;
    // A row that no longer matches stays until the list is refreshed: it must not vanish under the mouse.
    if (this.calm()) this.soon();
  }

  private patched(jobs: Job[]): Job[] {
    const news = new Map(jobs.map((each) => [each.jobId, each]));
    return this.rows.map((each) => news.get(each.jobId) ?? each);
  }

  private matches(job: Job): boolean {
    if (searches(this.query)) return false;
    const all = (name: string) => this.query.getAll(name);
    const one = (name: string, value: string | null | undefined) => all(name).length === 0 || all(name).includes(value ?? "");
    return (
      one("status", job.status) && one("definitionKey", job.definitionKey) && one("scheduleId", job.scheduleId) &&
      one("parentId", job.parentId) && one("referenceType", job.reference?.type) && one("referenceId", job.reference?.id) &&
      one("jobId", job.jobId) && (all("tag").length === 0 || all("tag").every((each) => job.tags.includes(each))) &&
      all("fingerprint").length === 0 && all("createdTo").length === 0
    );
  }
}
