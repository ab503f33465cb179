// What a user writes with the types that openapi-typescript makes of the document.
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

declare const process: { argv: string[] };

const [url, token] = process.argv.slice(2) as [string, string];
const api = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${token}` } });

function good<T>(answer: { data?: T; error?: unknown; response: Response }): T {
  if (answer.data === undefined) {
    throw new Error(`${answer.response.status} ${JSON.stringify(answer.error)}`);
  }
  return answer.data;
}

const started = good(
  await api.POST("/v1/jobs", { body: { definitionKey: "work", params: { text: "x" }, delay: 3600, tags: ["made"] } }),
);
const at = { params: { path: { jobId: started.jobId } } };
good(await api.PATCH("/v1/jobs/{jobId}", { ...at, body: { priority: 7 } }));
const job = good(await api.GET("/v1/jobs/{jobId}", at));
const page = good(await api.GET("/v1/jobs", { params: { query: { tag: "made", status: ["scheduled"] } } }));
const cancelled = good(await api.POST("/v1/jobs/{jobId}/cancel", at));

const schedule = { params: { path: { key: "nightly" }, header: {} } };
const changed = good(await api.PATCH("/v1/schedules/{key}", { ...schedule, body: { priority: 3 } }));

const refused = await api.GET("/v1/jobs/{jobId}", { params: { path: { jobId: "00000000-0000-7000-8000-000000000000" } } });

console.log(
  JSON.stringify({
    started: started.status,
    priority: job.priority,
    runAt: job.runAt,
    listed: page.jobs.map((each) => each.jobId === started.jobId),
    cancelled: cancelled.status,
    timezone: changed.timezone,
    enabled: changed.enabled,
    overlap: changed.overlap,
    code: refused.error?.error.code,
  }),
);
