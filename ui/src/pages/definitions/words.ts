// What is said of definitions, in words.
import type { Definition, DefinitionVersion } from "../../api/types";
import type { IconName } from "../../components/Icon.svelte";
import { plural, type Tone } from "../../data/words";

export interface Standing {
  word: string;
  tone: Tone;
  icon: IconName;
  title: string;
}

/** Whether jobs of a definition are made and run, and if not, what keeps them. */
export function standing(definition: Definition): Standing {
  if (definition.versions[0]?.error) return { word: "Unreadable", tone: "bad", icon: "warning", title: definition.versions[0].error };
  if (!definition.enabled) return { word: "Disabled", tone: "quiet", icon: "cancelling", title: "No job of it can be made." };
  if (definition.pause !== null) return { word: "Paused", tone: "warn", icon: "paused", title: definition.pause.reason };
  if (definition.liveWorkers === 0) return { word: "No worker", tone: "warn", icon: "warning", title: "No live worker has its code: jobs wait." };
  return { word: "Ready", tone: "good", icon: "succeeded", title: plural(definition.liveWorkers, "live worker") };
}

const UNITS: [number, string][] = [[86_400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** A length of time as short as it can be said: "7 d", "1 h 30 min", "0.5 s". */
export function span(seconds: number): string {
  if (seconds > 0 && seconds < 1) return `${Number(seconds.toFixed(3))} s`;
  let left = Math.round(seconds);
  const parts: string[] = [];
  for (const [size, unit] of UNITS) {
    const count = Math.floor(left / size);
    if (count > 0 && parts.length < 2) parts.push(`${count} ${unit}`);
    left -= count * size;
  }
  return parts.join(" ") || "0 s";
}

/** What comes between attempts. */
export function pauses(backoff: DefinitionVersion["backoff"]): string {
  const { base, max, seconds } = backoff as { base?: number; max?: number; seconds?: number | number[] };
  if (Array.isArray(seconds)) return seconds.map(span).join(", then ");
  if (typeof seconds === "number") return `${span(seconds)} each time`;
  if (typeof base === "number" && typeof max === "number") return `${span(base)}, twice as long each time, ${span(max)} at most`;
  return JSON.stringify(backoff);
}

type Rate = DefinitionVersion["rateLimit"];

export const limit = (count: number): string => (count === 0 ? "no limit" : `${count}`);
export const rate = (each: Rate): string =>
  each === null || each.count === 0 ? "no limit" : `${plural(each.count, "start")} in ${span(each.period ?? 1)}${each.perKey ? ", for each key" : ""}`;

export interface Limit {
  name: string;
  code: string;
  /** null: nobody said otherwise. */
  operator: string | null;
}

/** The limits of a definition: what its code says, and what an operator said in its place. */
export function limits(definition: Definition, version: DefinitionVersion): Limit[] {
  const { concurrency, keyConcurrency, rateLimit } = definition.overrides;
  return [
    { name: "Jobs at once", code: limit(version.concurrency), operator: concurrency === null ? null : limit(concurrency) },
    { name: "At once for each concurrency key", code: limit(version.keyConcurrency), operator: keyConcurrency === null ? null : limit(keyConcurrency) },
    { name: "Starts", code: rate(version.rateLimit), operator: rateLimit === null ? null : rate(rateLimit) },
  ];
}

/** How many jobs may run at once; 0: any number. */
export const atOnce = (definition: Definition): number => definition.overrides.concurrency ?? definition.versions[0]?.concurrency ?? 0;

export const waiting = (counts: Definition["counts"]): number => (counts.queued ?? 0) + (counts.scheduled ?? 0);
export const running = (counts: Definition["counts"]): number => (counts.running ?? 0) + (counts.cancelling ?? 0);
