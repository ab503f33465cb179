// The state of an endpoint, and the events it can receive.
import type { IconName } from "../../components/Icon.svelte";
import type { Delivery, Webhook } from "../../api/types";
import type { Tone } from "../../data/words";

interface Look {
  icon: IconName;
  word: string;
  tone: Tone;
}

export function lookOf(endpoint: Webhook, now: number): Look {
  if (!endpoint.enabled) return endpoint.disabledReason === null ? { icon: "paused", word: "Disabled", tone: "quiet" } : { icon: "failed", word: "Given up", tone: "bad" };
  if (resting(endpoint, now)) return { icon: "cancelling", word: "Resting", tone: "warn" };
  if (endpoint.failures > 0) return { icon: "warning", word: "Failing", tone: "warn" };
  return { icon: "succeeded", word: "Enabled", tone: "good" };
}

/** Whether nothing is sent to it for now, because it failed too often. */
export const resting = (endpoint: Webhook, now: number) => endpoint.openUntil !== null && Date.parse(endpoint.openUntil) > now;

export const DELIVERY_LOOKS: Record<Delivery["status"], Look> = {
  waiting: { icon: "scheduled", word: "Waiting", tone: "quiet" },
  delivered: { icon: "succeeded", word: "Delivered", tone: "good" },
  failed: { icon: "failed", word: "Failed", tone: "bad" },
};

export interface Kind {
  name: string;
  label: string;
}

/** Names that stand for several, then the kinds; those of an application of its own can be written by hand. */
export const KINDS: readonly (readonly [string, readonly Kind[]])[] = [
  ["How jobs end", [
    { name: "job.succeeded", label: "A job succeeded" },
    { name: "job.failed", label: "A job failed for good" },
    { name: "job.retrying", label: "An attempt failed and is tried again" },
    { name: "job.cancelled", label: "A job was cancelled" },
    { name: "job.stale", label: "An ended job became stale" },
  ]],
  ["What happens to jobs", [
    { name: "job.enqueued", label: "A job was enqueued" },
    { name: "job.started", label: "An attempt started" },
    { name: "job.phase.completed", label: "A phase was completed" },
    { name: "job.review_needed", label: "A job waits for a decision" },
    { name: "job.approved", label: "A review was approved" },
    { name: "job.rejected", label: "A review was rejected" },
    { name: "job.lost", label: "A worker was lost with a job" },
    { name: "job.deleted", label: "A job was deleted" },
  ]],
  ["Everything around", [
    { name: "alert.raised", label: "An alert was raised" },
    { name: "alert.cleared", label: "An alert was cleared" },
    { name: "schedule.missed", label: "A schedule missed its time" },
    { name: "schedule.skipped", label: "A schedule skipped a time" },
    { name: "worker.started", label: "A worker started" },
    { name: "worker.stopped", label: "A worker stopped" },
    { name: "worker.lost", label: "A worker was lost" },
  ]],
];

export const USUAL = ["job.succeeded", "job.failed", "job.retrying", "job.cancelled", "job.stale"];
const LISTED = new Set(KINDS.flatMap(([, kinds]) => kinds.map((each) => each.name)));

/** Events without a checkbox, such as "job.*". */
export const unlisted = (events: readonly string[]) => events.filter((each) => !LISTED.has(each));

/** Words that are separated by spaces, commas or lines. */
export const wordsOf = (text: string) => text.split(/[\s,]+/).filter((each) => each !== "");
