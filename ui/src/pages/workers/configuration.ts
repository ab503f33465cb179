// The stored configuration of all workers: its fields in words, and how it is written.
import { members } from "../../api/exact";
import { path, post, text } from "../../api/client";
import type { WorkerConfig } from "../../api/types";
import { duration } from "../../data/times";

export interface Field {
  /** Its path: "slots", "alerts.depth". */
  name: string;
  label: string;
  unit: "" | "seconds" | "bytes" | "share";
  least: number;
  most: number;
  whole?: boolean;
  /** It always has a value; others are left to the workers or definitions. */
  needed?: boolean;
  help?: string;
}

const YEAR = 365 * 86_400;
const MOST = 2 ** 53;

export const SECTIONS: readonly { title: string; unset: string; fields: readonly Field[] }[] = [
  {
    title: "How they work",
    unset: "the worker's own",
    fields: [
      { name: "slots", label: "Slots", unit: "", least: 1, most: 10_000, whole: true, help: "Jobs that one worker runs at once, each in a process of its own." },
      { name: "inlineSlots", label: "Inline slots", unit: "", least: 1, most: 100_000, whole: true, help: "Inline jobs that one worker runs at once." },
      { name: "poll", label: "Poll", unit: "seconds", least: 0.01, most: 3600, help: "Between unasked looks for jobs." },
      { name: "lease", label: "Lease", unit: "seconds", least: 1, most: 3600, help: "After so long a silent worker counts as dead: at least three heartbeats." },
      { name: "heartbeat", label: "Heartbeat", unit: "seconds", least: 0.1, most: 1200, help: "Between signs of life." },
      { name: "drain", label: "Drain", unit: "seconds", least: 0, most: 86_400, help: "So long jobs may go on after a worker was told to stop." },
      { name: "cancelGrace", label: "Grace of a cancel", unit: "seconds", least: 0, most: 86_400, help: "For attempts whose definition does not say." },
      { name: "ageing", label: "Ageing", unit: "seconds", least: 0, most: YEAR, needed: true, help: "Waiting for so long is worth one step of priority; 0: priorities are strict." },
    ],
  },
  {
    title: "Retention of ended jobs",
    unset: "as the program says",
    fields: [
      { name: "retention.staleAfter", label: "Stale after", unit: "seconds", least: 0, most: 100 * YEAR, help: "Where a definition says nothing." },
      { name: "retention.deleteAfter", label: "Deleted after", unit: "seconds", least: 0, most: 100 * YEAR, help: "Where a definition says nothing." },
    ],
  },
  {
    title: "Limits of an attempt",
    unset: "none",
    fields: [
      { name: "limits.memory", label: "Memory", unit: "bytes", least: 10_000_000, most: MOST, whole: true, help: "Where a definition says nothing, as for all limits." },
      { name: "limits.cpu", label: "Processor time", unit: "seconds", least: 1, most: MOST, whole: true },
      { name: "limits.files", label: "Open files", unit: "", least: 16, most: MOST, whole: true },
      { name: "limits.fileSize", label: "Size of a file", unit: "bytes", least: 0, most: MOST, whole: true },
      { name: "limits.processes", label: "Processes", unit: "", least: 1, most: MOST, whole: true },
    ],
  },
  {
    title: "Alerts",
    unset: "",
    fields: [
      { name: "alerts.failureRate", label: "Failure rate", unit: "share", least: 0, most: 1, needed: true, help: "Of the jobs of one definition: 0.1 is one in ten." },
      { name: "alerts.window", label: "Counted over", unit: "seconds", least: 60, most: 86_400, needed: true },
      { name: "alerts.leastSample", label: "Least number", unit: "", least: 1, most: 1_000_000, whole: true, needed: true, help: "The number of ended jobs that a failure rate requires." },
      { name: "alerts.depth", label: "Queue", unit: "", least: 0, most: MOST, whole: true, needed: true, help: "The number of jobs that may wait." },
      { name: "alerts.stuck", label: "Stuck", unit: "seconds", least: 0, most: YEAR, needed: true, help: "So much longer than usual a job may run or be silent." },
      { name: "alerts.endpointFailures", label: "Endpoint failures", unit: "", least: 1, most: 1_000_000, whole: true, needed: true, help: "Tries in a row." },
    ],
  },
];

export const FIELDS: readonly Field[] = SECTIONS.flatMap((each) => each.fields);

export interface Stored {
  config: WorkerConfig;
  /** The exact text of what belongs to the application. */
  custom: string;
}

export async function readConfiguration(): Promise<Stored> {
  return taken(await text("GET", path("worker", "config")));
}

/** Change what differs from what was read, unless another user has changed something since. */
export async function changeConfiguration(stored: Stored, { config, custom }: Stored): Promise<Stored> {
  const changes = JSON.stringify(differences(stored.config, config));
  const own = custom === stored.custom ? "" : `${changes === "{}" ? "" : ","}"custom":${custom}`;
  return taken(await text("PATCH", path("worker", "config"), { raw: `${changes.slice(0, -1)}${own}}`, revision: stored.config.revision }));
}

export const setEnabled = (enabled: boolean) => text("PATCH", path("worker", "config"), { raw: JSON.stringify({ enabled }) });

/** Start nothing more of any definition, with a reason that everybody sees. */
export const pauseAll = (asked: { reason: string; until: string | null }) => post(path("system", "pause"), asked);
export const resumeAll = () => post(path("system", "resume"));

function taken(told: string): Stored {
  return { config: JSON.parse(told) as WorkerConfig, custom: members(told).get("custom") ?? "{}" };
}

function differences(before: WorkerConfig, after: WorkerConfig): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const { name } of FIELDS) {
    const value = valueOf(after, name);
    if (value === valueOf(before, name)) continue;
    const [first, second] = name.split(".") as [string, string | undefined];
    found[first] = second === undefined ? value : { ...(found[first] as object | undefined), [second]: value };
  }
  return found;
}

/** The values as texts, for a form. */
export function textsOf(config: WorkerConfig): Record<string, string> {
  return Object.fromEntries(FIELDS.map(({ name }) => [name, String(valueOf(config, name) ?? "")]));
}

export function valueOf(config: WorkerConfig, name: string): number | null {
  return name.split(".").reduce<unknown>((part, key) => (part as Record<string, unknown>)[key], config) as number | null;
}

/** A configuration with the values of a form. */
export function withTexts(config: WorkerConfig, texts: Record<string, string>): WorkerConfig {
  const made = structuredClone(config) as unknown as Record<string, unknown>;
  for (const { name } of FIELDS) {
    const [first, second] = name.split(".") as [string, string | undefined];
    const written = String(texts[name] ?? "").trim();
    const value = written === "" ? null : Number(written);
    if (second === undefined) made[first] = value;
    else (made[first] as Record<string, unknown>)[second] = value;
  }
  return made as unknown as WorkerConfig;
}

/** What is wrong with a text, if anything. */
export function wrong(field: Field, written: string): string | null {
  const value = Number(written);
  if (written.trim() === "") return field.needed ? "It needs a value." : null;
  if (!Number.isFinite(value) || (field.whole && !Number.isInteger(value))) return field.whole ? "It must be a whole number." : "It must be a number.";
  return value < field.least || value > field.most ? `It must be from ${field.least} to ${field.most}.` : null;
}

/** A value as people read it. */
export function said(field: Field, value: number | null): string {
  if (value === null || Number.isNaN(value)) return "";
  if (field.unit === "share") return `${Number((value * 100).toFixed(2))} %`;
  if (field.unit === "bytes") return size(value);
  return field.unit === "seconds" ? duration(value).replace(/( 0 (s|min|h))+$/, "") : String(value);
}

function size(bytes: number): string {
  const units = ["bytes", "kB", "MB", "GB", "TB", "PB"];
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  return `${Number((bytes / 1000 ** power).toFixed(2))} ${units[power]}`;
}
