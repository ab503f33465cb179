// One definition with its figures and its newest jobs, kept up to date.
import { get, path, text } from "../../api/client";
import { elements, members } from "../../api/exact";
import type { Definition, DefinitionStats, Job, JobList, Stats } from "../../api/types";
import { kept } from "../../data/kept";
import { clock } from "../../live/clock.svelte";

const DAY = 86_400_000;

/** What a version takes, as the texts that they are. */
export interface Texts {
  schema: string;
  defaultParams: string;
}

export class DefinitionView {
  definition: Definition | null = $state.raw(null);
  texts: Texts[] = $state.raw([]);
  stats: DefinitionStats | null = $state.raw(null);
  jobs: Job[] = $state.raw([]);
  problem: unknown = $state.raw(null);

  constructor(readonly key: string) {}

  start(): () => void {
    return kept(() => this.read(), (event) => event.type !== "job.progress" && (event.job?.definitionKey === this.key || event.deletedJobId !== null || event.type.startsWith("worker.")));
  }

  async read(): Promise<void> {
    try {
      const since = new Date(clock.read() - DAY).toISOString();
      const [told, stats, { jobs }] = await Promise.all([
        text("GET", path("definitions", this.key)),
        get<Stats>(path("stats"), { since }),
        get<JobList>(path("jobs"), { definitionKey: this.key, limit: 12 }),
      ]);
      this.take(told);
      this.stats = stats.definitions.find((each) => each.definitionKey === this.key) ?? null;
      this.jobs = jobs;
      this.problem = null;
    } catch (error) {
      this.problem = error;
    }
  }

  /** An answer with the definition. */
  take(told: string): void {
    this.texts = elements(members(told).get("versions") ?? "[]").map((each) => {
      const parts = members(each);
      return { schema: parts.get("schema") ?? "{}", defaultParams: parts.get("defaultParams") ?? "{}" };
    });
    this.definition = JSON.parse(told) as Definition;
  }

  async change(verb: "pause" | "resume" | "enable" | "disable" | "retire", body?: unknown): Promise<void> {
    this.take(await text("POST", path("definitions", this.key, verb), { body }));
  }

  async remove(): Promise<void> {
    await text("DELETE", path("definitions", this.key));
  }

  async limit(body: unknown): Promise<void> {
    this.take(await text("PUT", path("definitions", this.key, "overrides"), { body }));
  }
}
