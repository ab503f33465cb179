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
  if (definition.retired !== null) return { word: "Retired", tone: "quiet", icon: "cancelling", title: `${definition.retired.by} has retired it: no code declares it.` };
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
  /** null: not overridden. */
  operator: string | null;
}

const timeLimit = (seconds: number | null): string => (seconds === null || seconds === 0 ? "no limit" : span(seconds));

/** A backoff as a person writes it: seconds, or several with commas. A doubling one is "5..3600". */
export function pausesText(policy: Record<string, unknown> | null): string {
  if (policy === null) return "";
  return policy.kind === "backoff" ? `${policy.base}..${policy.max}` : [policy.seconds].flat().join(", ");
}

/** What a person wrote, as the API takes it; undefined: it is none. */
export function pausesAsked(written: string, stored: Record<string, unknown> | null): unknown {
  const [first, last, ...more] = written.split("..").map((each) => each.trim());
  const good = (each: string | undefined) => each !== undefined && each !== "" && Number(each) >= 0 && Number(each) <= 30 * 86_400;
  if (last !== undefined) {
    if (more.length || !good(first) || !good(last)) return undefined;
    return { base: Number(first), max: Number(last), ...(stored?.kind === "backoff" ? { jitter: stored.jitter } : {}) };
  }
  const each = written.split(",").map((one) => one.trim());
  return each.every(good) ? (each.length === 1 ? Number(each[0]) : each.map(Number)) : undefined;
}

/** The limits of a definition: what its code says, and what an operator said in its place. */
export function limits(definition: Definition, version: DefinitionVersion): Limit[] {
  const { concurrency, keyConcurrency, rateLimit, priority, maxAttempts, backoff, timeout, logLevel } = definition.overrides;
  return [
    { name: "Jobs at once", code: limit(version.concurrency), operator: concurrency === null ? null : limit(concurrency) },
    { name: "At once for each concurrency key", code: limit(version.keyConcurrency), operator: keyConcurrency === null ? null : limit(keyConcurrency) },
    { name: "Starts", code: rate(version.rateLimit), operator: rateLimit === null ? null : rate(rateLimit) },
    { name: "Priority of later jobs", code: String(version.priority), operator: priority === null ? null : String(priority) },
    { name: "Attempts of later jobs", code: String(version.maxAttempts), operator: maxAttempts === null ? null : String(maxAttempts) },
    { name: "Pause before another attempt", code: pauses(version.backoff), operator: backoff === null ? null : pauses(backoff) },
    { name: "Timeout of an attempt", code: timeLimit(version.timeout), operator: timeout === null ? null : timeLimit(timeout) },
    { name: "Lowest log level kept", code: version.logLevel, operator: logLevel },
  ];
}

/** Whether jobs of it can be created. */
export const open = (definition: Definition): boolean => definition.enabled && definition.retired === null;

/** How many jobs may run at once; 0: any number. */
export const atOnce = (definition: Definition): number => definition.overrides.concurrency ?? definition.versions[0]?.concurrency ?? 0;

export const waiting = (counts: Definition["counts"]): number => (counts.queued ?? 0) + (counts.scheduled ?? 0);
export const running = (counts: Definition["counts"]): number => (counts.running ?? 0) + (counts.cancelling ?? 0);
