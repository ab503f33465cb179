// A schedule while it is written: what differs from what was read, and what would come of it.
import { ApiError, get, json, path, text } from "../../api/client";
import { laidOut } from "../../api/exact";
import type { AuditList, Preview, Schedule } from "../../api/types";
import { type Stored, stored } from "./schedule.svelte";

const PATIENCE = 250;

/** All fields of a schedule except its key and its definition; "" and null: not set. */
export interface Facts {
  kind: Schedule["kind"];
  expression: string;
  timezone: string;
  params: string;
  definitionVersion: number | null;
  priority: number | null;
  concurrencyKey: string | null;
  missed: Schedule["missed"];
  missedMax: number;
  missedWindow: number | null;
  overlap: Schedule["overlap"];
  jitter: number;
  enabled: boolean;
}

export const LABELS: Record<keyof Facts, string> = {
  kind: "kind", expression: "expression", timezone: "time zone", params: "parameters", definitionVersion: "version", priority: "priority",
  concurrencyKey: "concurrency key", missed: "missed ticks", missedMax: "ticks made up for", missedWindow: "oldest tick made up for",
  overlap: "overlap", jitter: "spread", enabled: "whether it ticks",
};

const NEW: Facts = {
  kind: "cron", expression: "0 9 * * *", timezone: "UTC", params: "{}", definitionVersion: null, priority: null, concurrencyKey: null,
  missed: "latest", missedMax: 100, missedWindow: null, overlap: "allow", jitter: 0, enabled: true,
};

function factsOf({ schedule, params }: Stored): Facts {
  const { kind, expression, timezone, definitionVersion, priority, concurrencyKey, missed, missedMax, missedWindow, overlap, jitter, enabled } = schedule;
  return { kind, expression, timezone, params, definitionVersion, priority, concurrencyKey, missed, missedMax, missedWindow, overlap, jitter, enabled };
}

const same = (name: keyof Facts, one: Facts, other: Facts) => (name === "params" ? laidOut(one.params) === laidOut(other.params) : one[name] === other[name]);
const NAMES = Object.keys(NEW) as (keyof Facts)[];

/** Facts as JSON text; parameters go as the text they are. */
function written(facts: Facts, names: readonly (keyof Facts)[], more: Record<string, unknown> = {}): string {
  const plain = JSON.stringify({ ...more, ...Object.fromEntries(names.filter((each) => each !== "params").map((each) => [each, facts[each]])) });
  if (!names.includes("params")) return plain;
  return plain === "{}" ? `{"params":${facts.params}}` : `${plain.slice(0, -1)},"params":${facts.params}}`;
}

export interface Conflict {
  theirs: Stored;
  /** What they changed, by its label. */
  differs: string[];
  by: string | null;
}

export class Draft {
  facts: Facts = $state({ ...NEW });
  conflict: Conflict | null = $state.raw(null);
  preview: Preview | null = $state.raw(null);
  refused: ApiError | null = $state.raw(null);
  private base: Facts = $state.raw(NEW);
  private revision: number | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private asked = 0;

  constructor(readonly key: string | null, from: Stored | null, zone: string) {
    this.facts = from === null ? { ...NEW, timezone: zone } : factsOf(from);
    this.base = from === null ? NEW : factsOf(from);
    this.revision = from?.schedule.revision ?? null;
  }

  /** What is not as it was read. */
  get changed(): (keyof Facts)[] {
    const names = NAMES.filter((each) => !same(each, this.facts, this.base));
    // A kind is sent together with its expression.
    if (names.includes("kind") && !names.includes("expression")) names.push("expression");
    return names;
  }

  /** Preview the expression after the last keystroke. */
  look(): void {
    const { kind, expression, timezone } = this.facts;
    const mine = ++this.asked;
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      try {
        const found = await json<Preview>("POST", path("schedules", "preview"), { body: { kind, expression, timezone, count: 10 } });
        if (mine !== this.asked) return;
        this.preview = found;
        this.refused = null;
      } catch (error) {
        if (mine === this.asked && error instanceof ApiError) this.refused = error;
      }
    }, PATIENCE);
  }

  create(key: string, definitionKey: string): Promise<unknown> {
    return json("POST", path("schedules"), { raw: written(this.facts, NAMES, { key, definitionKey }) });
  }

  /** Save the changes; false after a concurrent change, which `conflict` describes. */
  async save(): Promise<boolean> {
    const key = this.key as string;
    try {
      await text("PATCH", path("schedules", key), { raw: written(this.facts, this.changed), revision: this.revision });
      return true;
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== "revision_conflict") throw error;
      const theirs = stored(await text("GET", path("schedules", key)));
      const said = factsOf(theirs);
      const audit = await get<AuditList>(path("audit"), { target: key, limit: 1 }).catch(() => null);
      this.conflict = { theirs, differs: NAMES.filter((each) => !same(each, said, this.base)).map((each) => LABELS[each]), by: audit?.audit[0]?.actor ?? null };
      return false;
    }
  }

  /** After a conflict: what I changed stays, or all is as they have it. */
  settle(mine: boolean): void {
    if (this.conflict === null) return;
    const theirs = factsOf(this.conflict.theirs);
    const kept = mine ? Object.fromEntries(this.changed.map((each) => [each, this.facts[each]])) : {};
    this.facts = { ...theirs, ...kept };
    this.base = theirs;
    this.revision = this.conflict.theirs.schedule.revision;
    this.conflict = null;
  }
}
