// A job's life as bars on one axis; long idle gaps are folded, so that work stays visible.
import type { Attempt, AttemptPhase, JobDetail, Phase } from "../api/types";
import type { Tone } from "../data/words";

export interface Bar {
  name: string;
  kind: "waiting" | "attempt" | "phase" | "pause";
  level: number;
  from: number;
  to: number;
  tone: Tone;
  word: string;
  open: boolean;
  fence: number | null;
}

export interface Axis {
  /** 0 to 100. */
  at(time: number): number;
  /** The moment at such a place. */
  time(place: number): number;
  folds: { from: number; to: number }[];
}

const ENDING: Record<string, [Tone, string]> = {
  succeeded: ["good", "succeeded"], failed: ["bad", "failed"], cancelled: ["quiet", "cancelled"],
  review_needed: ["ask", "asked for review"], scheduled: ["warn", "will be tried again"], queued: ["quiet", "given back"],
};

export function bars(job: JobDetail, attempts: Attempt[], now: number): Bar[] {
  const ended = job.finishedAt === null ? null : Date.parse(job.finishedAt);
  const tries = attempts.filter((each) => each.startedAt !== null).sort((one, other) => one.fence - other.fence);
  const made: Bar[] = [];
  let from = Date.parse(job.createdAt);
  const wait = (to: number, open = false) => {
    if (to - from < 1) return;
    const first = made.length === 0;
    made.push({ name: first ? "waiting" : "between attempts", kind: first ? "waiting" : "pause", level: 0, from, to, tone: "quiet", word: "waited", open, fence: null });
  };
  for (const each of tries) {
    const began = Date.parse(each.startedAt as string);
    wait(began);
    const [tone, word] = each.cause === "lost" ? (["warn", "lost its worker"] as const) : (ENDING[each.status] ?? ["quiet", each.status]);
    made.push({ name: `attempt ${each.number}`, kind: "attempt", level: 0, from: began, to: Date.parse(each.finishedAt), tone, word, open: false, fence: each.fence });
    made.push(...phaseBars(each.phases, each.fence, now));
    from = Date.parse(each.finishedAt);
  }
  const current = job.status === "running" || job.status === "cancelling";
  if (current && !tries.some((each) => each.fence === job.fence) && job.startedAt !== null) {
    const began = Date.parse(job.startedAt);
    wait(began);
    made.push({ name: `attempt ${job.attempts}`, kind: "attempt", level: 0, from: began, to: now, tone: "busy", word: job.status, open: true, fence: job.fence });
    made.push(...phaseBars(job.phases.filter((phase) => phase.fence === job.fence), job.fence, now));
  } else if (ended === null) wait(now, true);
  return made;
}

const PHASE_TONES: Record<string, Tone> = { completed: "good", failed: "bad", cancelled: "quiet", interrupted: "quiet" };

function phaseBars(phases: (Phase | AttemptPhase)[], fence: number, now: number): Bar[] {
  // A plain job has one phase, which says nothing that its attempt does not.
  if (phases.length < 2 && (phases[0]?.name ?? "run") === "run") return [];
  return phases
    .filter((each) => each.startedAt !== null)
    .map((each) => ({
      name: each.name, kind: "phase" as const, level: 1, from: Date.parse(each.startedAt as string),
      to: each.finishedAt === null ? now : Date.parse(each.finishedAt), tone: PHASE_TONES[each.status] ?? ("busy" as const),
      word: each.status === "running" ? `${Math.round(each.progress)} % ${each.message ?? ""}`.trim() : each.status,
      open: each.status === "running", fence,
    }));
}

export function axis(all: Bar[]): Axis {
  const busy = all.filter((each) => each.kind === "attempt" || each.kind === "phase");
  const begin = Math.min(...all.map((each) => each.from));
  const end = Math.max(begin + 1, ...all.map((each) => each.to));
  const sizes = busy.map((each) => each.to - each.from).sort((one, other) => one - other);
  const usual = Math.max(50, sizes[Math.floor(sizes.length / 2)] ?? end - begin);
  const folds = all
    .filter((each) => (each.kind === "waiting" || each.kind === "pause") && busy.length > 0 && each.to - each.from > usual * 10)
    .map(({ from, to }) => ({ from, to }));
  const folded = folds.reduce((sum, each) => sum + each.to - each.from, 0);
  const width = Math.max(1, end - begin - folded);
  const foldWidth = width * 0.06;
  const whole = width + folds.length * foldWidth;
  const at = (time: number) => {
    let seen = 0;
    let cursor = begin;
    for (const fold of folds) {
      if (time <= fold.from) break;
      seen += fold.from - cursor;
      const inside = Math.min(1, (time - fold.from) / (fold.to - fold.from));
      seen += inside * foldWidth;
      cursor = Math.min(time, fold.to);
    }
    if (time > cursor) seen += time - cursor;
    return Math.max(0, Math.min(100, (seen / whole) * 100));
  };
  const time = (wanted: number) => {
    // The axis rises steadily, so halving finds the moment.
    let [low, high] = [begin, end];
    for (let step = 0; step < 40; step++) {
      const middle = (low + high) / 2;
      if (at(middle) < wanted) low = middle;
      else high = middle;
    }
    return high;
  };
  return { at, time, folds };
}

/** A part of the axis, 0 to 100. */
export interface Stretch {
  from: number;
  to: number;
}

export const WHOLE: Stretch = { from: 0, to: 100 };
const CLOSEST = 0.5;

/** Parse "20-60"; any other text means the whole range. */
export function stretch(text: string | null): Stretch {
  const found = /^([\d.]+)-([\d.]+)$/.exec(text ?? "");
  const [from, to] = [Number(found?.[1]), Number(found?.[2])];
  return found !== null && from >= 0 && to <= 100 && to - from >= CLOSEST ? { from, to } : WHOLE;
}

/** The same centre, wider by a factor. */
export function zoomed(view: Stretch, times: number): Stretch {
  const wide = Math.min(100, Math.max(CLOSEST, (view.to - view.from) * times));
  return within((view.from + view.to - wide) / 2, wide);
}

/** A quarter further. */
export function moved(view: Stretch, direction: -1 | 1): Stretch {
  const wide = view.to - view.from;
  return within(view.from + (direction * wide) / 4, wide);
}

function within(from: number, wide: number): Stretch {
  const begin = Math.min(100 - wide, Math.max(0, from));
  const rounded = (value: number) => Math.round(value * 1000) / 1000;
  return { from: rounded(begin), to: rounded(begin + wide) };
}
