// Times and durations as people read them.
import { preferences } from "../shell/preferences.svelte";

/** "41 s", "00:01:12", "3 d 4 h"; below ten seconds with a part. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  const value = Math.max(0, seconds);
  if (value < 0.001) return "0 s";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 60) return `${Math.floor(value)} s`;
  const whole = Math.floor(value);
  const [days, hours, minutes] = [Math.floor(whole / 86_400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  return `${minutes} min ${whole % 60} s`;
}

/** "12 s ago", "in 3 min". */
export function relative(then: number, now: number): string {
  const seconds = (now - then) / 1000;
  const size = Math.abs(seconds);
  if (size < 1) return "now";
  const written =
    size < 60 ? `${Math.floor(size)} s`
    : size < 3600 ? `${Math.floor(size / 60)} min`
    : size < 86_400 ? `${Math.floor(size / 3600)} h`
    : `${Math.floor(size / 86_400)} d`;
  return seconds > 0 ? `${written} ago` : `in ${written}`;
}

const zone = () => (preferences.utc ? { timeZone: "UTC" } : {});

/** Date and time in the viewer's zone, or in UTC when that is preferred. */
export function full(iso: string): string {
  const written = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium", ...zone() }).format(new Date(iso));
  return preferences.utc ? `${written} UTC` : written;
}

/** The time of day, with milliseconds where wanted. */
export function clockTime(iso: string | number, milliseconds = false): string {
  return new Intl.DateTimeFormat("en-GB", {
    hour: "2-digit", minute: "2-digit", second: "2-digit",
    ...(milliseconds ? { fractionalSecondDigits: 3 } : {}), ...zone(),
  } as Intl.DateTimeFormatOptions).format(new Date(iso));
}

/** Until when the latest attempt at a job ran; null while it does. Waiting does not count. */
export function ranUntil(job: { status: string; startedAt: string | null; duration: number | null }): string | null {
  if (job.status === "running" || job.status === "cancelling" || job.startedAt === null) return null;
  return new Date(Date.parse(job.startedAt) + (job.duration ?? 0) * 1000).toISOString();
}

export function between(from: string | null | undefined, to: string | number | null | undefined): number | null {
  if (!from || to === null || to === undefined) return null;
  return ((typeof to === "number" ? to : Date.parse(to)) - Date.parse(from)) / 1000;
}
