// The jobs that wait for a person, the longest waiting first, each with what it asks.
import { SvelteMap } from "svelte/reactivity";

import { get, json, path } from "../../api/client";
import type { ApiEvent, Job, JobChanged, JobDetail, JobList } from "../../api/types";
import { kept } from "../../data/kept";

const PAGE = 50;
const AT_ONCE = 4;

export interface Question {
  fence: number;
  note: string | null;
  askedAt: string;
}

export class Inbox {
  jobs: Job[] = $state.raw([]);
  count: number | null = $state(null);
  capped = $state(false);
  loaded = $state(false);
  problem: unknown = $state.raw(null);
  readonly questions = new SvelteMap<string, Question>();

  start(): () => void {
    return kept(() => this.read(), (event) => this.concerns(event), { pace: 500, every: 60_000 });
  }

  async read(): Promise<void> {
    try {
      const found = await get<JobList>(path("jobs"), { status: "review_needed", sort: "createdAt", limit: PAGE, count: true });
      this.jobs = found.jobs.sort((one, other) => one.updatedAt.localeCompare(other.updatedAt));
      this.count = found.count ?? null;
      this.capped = found.countCapped ?? false;
      this.problem = null;
      this.loaded = true;
      await this.ask();
    } catch (error) {
      this.problem = error;
      this.loaded = true;
    }
  }

  /** A decided review, before the list is refreshed. */
  forget(id: string): void {
    this.jobs = this.jobs.filter((each) => each.jobId !== id);
  }

  /** Lists do not tell what is asked: each job that is new here is read, a few at a time. */
  private async ask(): Promise<void> {
    const unknown = this.jobs.filter((job) => this.questions.get(job.jobId)?.fence !== job.fence);
    const next = async (): Promise<void> => {
      for (let job = unknown.shift(); job !== undefined; job = unknown.shift()) {
        const { fence, reviews } = await get<JobDetail>(path("jobs", job.jobId));
        const review = reviews.at(-1);
        if (review !== undefined) this.questions.set(job.jobId, { fence, note: review.note, askedAt: review.askedAt });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, next));
  }

  private concerns(event: ApiEvent): boolean {
    if (event.type === "job.review_needed") return true;
    const id = event.jobId ?? event.deletedJobId;
    return id !== null && this.jobs.some((each) => each.jobId === id);
  }
}

/** Approve; a result is sent as its exact text, and replaces the handler's result. */
export function approve(id: string, note: string, result: string | null): Promise<JobChanged> {
  const told = JSON.stringify(note || null);
  const raw = result === null ? `{"note": ${told}}` : `{"note": ${told}, "result": ${result}}`;
  return json<JobChanged>("POST", path("jobs", id, "approve"), { raw });
}
