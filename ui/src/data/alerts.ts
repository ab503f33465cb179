// What an alert is about, and where to look at it.
import type { Alert } from "../api/types";
import { link } from "../router/router.svelte";

const ALL = "*";

export interface About {
  /** What kind of alert it is, in words. */
  title: string;
  /** What to press. */
  verb: string;
  target: string;
}

const KINDS: Record<string, (subject: string) => About> = {
  worker_disabled: () => ({ title: "Workers take no jobs", verb: "Configuration", target: "workers?tab=configuration" }),
  worker_config: () => ({ title: "Unreadable configuration", verb: "Configuration", target: "workers?tab=configuration" }),
  system_paused: () => ({ title: "Everything is paused", verb: "Workers", target: "workers" }),
  unserved: (key) => ({ title: "No worker for it", verb: "Definition", target: link("definitions", key) }),
  worker_failing: () => ({ title: "Worker cannot start its application", verb: "Workers", target: "workers" }),
  failure_rate: (key) => ({ title: "Many failures", verb: "Failed jobs", target: `jobs?status=failed&definitionKey=${encodeURIComponent(key)}` }),
  schedule_missed: (key) => ({ title: "Schedule missed", verb: "Schedule", target: link("schedules", key) }),
  depth: (key) => ({ title: "Long queue", verb: "Queued jobs", target: `jobs?status=queued${key === ALL ? "" : `&definitionKey=${encodeURIComponent(key)}`}` }),
  stuck: (id) => ({ title: "Runs too long", verb: "Job", target: link("jobs", id) }),
  silent: (id) => ({ title: "Silent job", verb: "Job", target: link("jobs", id) }),
  endpoint_failing: (id) => ({ title: "Endpoint fails", verb: "Endpoint", target: link("webhooks", id) }),
};

export function about(alert: Pick<Alert, "kind" | "subject">): About {
  return KINDS[alert.kind]?.(alert.subject) ?? { title: alert.kind.replaceAll("_", " "), verb: "Look", target: "alerts" };
}
