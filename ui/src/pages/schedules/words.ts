// What is said of schedules, in words.
import type { Preview, Schedule } from "../../api/types";
import type { IconName } from "../../components/Icon.svelte";
import { plural, type Tone } from "../../data/words";
import { span } from "../definitions/words";

export interface Standing {
  word: string;
  tone: Tone;
  icon: IconName;
  title: string;
}

/** Whether a schedule ticks, and if not, why. */
export function standing(schedule: Schedule): Standing {
  if (schedule.error !== null) return { word: "Unreadable", tone: "bad", icon: "warning", title: schedule.error };
  if (schedule.pause !== null) return { word: "Paused", tone: "warn", icon: "paused", title: schedule.pause.reason };
  if (!schedule.enabled) return { word: "Off", tone: "quiet", icon: "cancelling", title: "It does not tick." };
  if (schedule.nextRunAt === null) return { word: "Over", tone: "quiet", icon: "succeeded", title: "No tick is to come." };
  return { word: "On", tone: "good", icon: "scheduled", title: "It ticks." };
}

export const MISSED: Record<Schedule["missed"], string> = {
  skip: "Make up for none",
  latest: "Make up for the newest",
  all: "Make up for all",
};
export const OVERLAP: Record<Schedule["overlap"], string> = {
  allow: "Create another job in parallel",
  skip: "Make none",
  queue_one: "Make one if none waits yet",
};

/** The policy for missed ticks. */
export function missedPolicy(schedule: Schedule): string {
  if (schedule.missed === "skip") return "they are passed over";
  const window = schedule.missedWindow === null ? "" : `, if it is no older than ${span(schedule.missedWindow)}`;
  return schedule.missed === "latest" ? `the newest is made up for${window}` : `the newest ${plural(schedule.missedMax, "tick")} are made up for${window}`;
}

export const overlapPolicy = (schedule: Schedule): string =>
  ({ allow: "another job is created in parallel", skip: "the tick makes none", queue_one: "one more may wait, the others make none" })[schedule.overlap];

export const own = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** An instant on the wall clock of a zone: "Mon 16 Nov 2026, 02:30", with seconds where wanted. */
export function wall(iso: string, zone: string, seconds = false): string {
  try {
    const parts = new Intl.DateTimeFormat("en-GB", {
      weekday: "short", day: "2-digit", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone: zone,
    }).formatToParts(new Date(iso));
    const of = (name: string) => parts.find((each) => each.type === name)?.value ?? "";
    return `${of("weekday")} ${of("day")} ${of("month")} ${of("year")}, ${of("hour")}:${of("minute")}${seconds ? `:${of("second")}` : ""}`;
  } catch {
    return "";
  }
}

type Fire = Preview["fires"][number];
const offset = (fire: Fire): string => /[+-]\d\d:\d\d$/.exec(fire.local)?.[0] ?? "";

/** What the clock of the schedule's zone did between two ticks. */
export function shift(fire: Fire, before: Fire | undefined): string {
  if (before === undefined || offset(fire) === offset(before)) return "";
  return `the clock was changed: ${offset(before)} to ${offset(fire)}`;
}
