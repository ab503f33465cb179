// What can be done to a job, and when.
import { json, path, post } from "../api/client";
import type { Job, JobChanged, JobStarted, Status } from "../api/types";

export const can = {
  cancel: (job: { status: Status }) => ["scheduled", "queued", "running", "review_needed"].includes(job.status),
  retry: (job: { status: Status }) => ["failed", "cancelled", "stale"].includes(job.status),
  decide: (job: { status: Status }) => job.status === "review_needed",
  remove: (job: { status: Status }) => ["succeeded", "failed", "cancelled", "stale"].includes(job.status),
  runNow: (job: { status: Status }) => job.status === "scheduled",
};

export const cancel = (id: string) => post<JobChanged>(path("jobs", id, "cancel"));
export const retry = (id: string, fromPhase?: string) => post<JobChanged>(path("jobs", id, "retry"), fromPhase === undefined ? undefined : { fromPhase });
export const runNow = (id: string) => json<JobChanged>("PATCH", path("jobs", id), { body: { delay: 0 } });
export const remove = (id: string) => json<null>("DELETE", path("jobs", id));
export const approve = (id: string, note: string) => post<JobChanged>(path("jobs", id, "approve"), { note: note || null });
export const reject = (id: string, note: string) => post<JobChanged>(path("jobs", id, "reject"), { note: note || null });

/** The same job once more; the parameters are sent as the text they are. */
export function rerun(id: string, params: string): Promise<JobStarted> {
  return json<JobStarted>("POST", path("jobs", id, "rerun"), { raw: `{"params": ${params}}` });
}

/** A new job; the parameters are sent as the text they are. */
export function start(definitionKey: string, params: string, options: Record<string, unknown> = {}): Promise<JobStarted> {
  const rest = JSON.stringify({ definitionKey, ...options });
  return json<JobStarted>("POST", path("jobs"), { raw: `${rest.slice(0, -1)},"params":${params}}` });
}

/** How to do the same elsewhere. */
export function elsewhere(job: Pick<Job, "jobId">, verb: "show" | "cancel" | "retry"): { cli: string; curl: string; python: string } {
  const address = new URL(path("jobs", job.jobId), document.baseURI).href;
  const curl = verb === "show" ? `curl '${address}'` : `curl -X POST '${address}/${verb}'`;
  const python = verb === "show" ? `app.jobs.read("${job.jobId}")` : `app.jobs.${verb}("${job.jobId}", by="me")`;
  return { cli: `penstock jobs ${verb} ${job.jobId}`, curl, python };
}
