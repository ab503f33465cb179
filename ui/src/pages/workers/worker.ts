// The state of a worker.
import type { IconName } from "../../components/Icon.svelte";
import type { Worker } from "../../api/types";
import type { Tone } from "../../data/words";

export function lookOf(worker: Worker): { icon: IconName; word: string; tone: Tone } {
  if (worker.ended === "stopped") return { icon: "paused", word: "Stopped", tone: "quiet" };
  if (worker.ended === "lost") return { icon: "failed", word: "Lost", tone: "bad" };
  if (!worker.live) return { icon: "warning", word: "Silent", tone: "warn" };
  return { icon: "succeeded", word: "Live", tone: "good" };
}

/** Duties whose last round went wrong, or that never went well though they were tried. */
export const failing = (worker: Worker) => worker.duties.filter((each) => each.lastError !== null || (each.lastSuccessAge === null && each.errors > 0));
