// The words and marks of states: a shape, a word and a colour, never a colour alone.
import type { IconName } from "../components/Icon.svelte";
import type { Status } from "../api/types";

export type Tone = "good" | "bad" | "warn" | "busy" | "quiet" | "ask";

export interface Look {
  word: string;
  /** For titles; pages draw the icon. */
  mark: string;
  icon: IconName;
  tone: Tone;
}

export const LOOKS: Record<Status, Look> = {
  scheduled: { word: "Scheduled", mark: "◷", icon: "scheduled", tone: "quiet" },
  queued: { word: "Queued", mark: "○", icon: "queued", tone: "quiet" },
  running: { word: "Running", mark: "◐", icon: "running", tone: "busy" },
  cancelling: { word: "Cancelling", mark: "⊘", icon: "cancelling", tone: "warn" },
  review_needed: { word: "Needs review", mark: "?", icon: "review", tone: "ask" },
  succeeded: { word: "Succeeded", mark: "✓", icon: "succeeded", tone: "good" },
  failed: { word: "Failed", mark: "✕", icon: "failed", tone: "bad" },
  cancelled: { word: "Cancelled", mark: "⊘", icon: "cancelling", tone: "quiet" },
  stale: { word: "Stale", mark: "◌", icon: "stale", tone: "quiet" },
};

/** A job that waits for its next attempt is scheduled, and people call that retrying. */
export function lookOf(job: { status: Status; attempts?: number; error?: unknown }): Look {
  if (job.status === "scheduled" && (job.attempts ?? 0) > 0) return { word: "Retrying", mark: "↻", icon: "retrying", tone: "warn" };
  return LOOKS[job.status];
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${grouped(count)} ${count === 1 ? one : many}`;
}

/** A number with thin spaces between thousands. */
export function grouped(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}
