// The filters of the list of jobs: the same names in the address, in the API and in what is done in bulk.
export interface Filter {
  name: string;
  label: string;
  kind: "text" | "status" | "definition" | "moment";
}

export const JOB_FILTERS: readonly Filter[] = [
  { name: "status", label: "Status", kind: "status" },
  { name: "definitionKey", label: "Definition", kind: "definition" },
  { name: "tag", label: "Tag", kind: "text" },
  { name: "referenceType", label: "Reference type", kind: "text" },
  { name: "referenceId", label: "Reference id", kind: "text" },
  { name: "scheduleId", label: "Schedule", kind: "text" },
  { name: "createdFrom", label: "Created from", kind: "moment" },
  { name: "createdTo", label: "Created to", kind: "moment" },
  { name: "fingerprint", label: "Error", kind: "text" },
  { name: "parentId", label: "Parent job", kind: "text" },
  { name: "jobId", label: "Job id", kind: "text" },
];

const MANY = new Set(["status", "jobId"]);

/** The query of the API from the query of the page. */
export function asked(query: URLSearchParams): URLSearchParams {
  const found = new URLSearchParams();
  for (const { name } of JOB_FILTERS) for (const each of query.getAll(name)) found.append(name, each);
  return found;
}

/** The same filters as the body of a change in bulk. */
export function asBody(query: URLSearchParams): Record<string, string | string[]> {
  const found: Record<string, string | string[]> = {};
  for (const { name } of JOB_FILTERS) {
    const all = query.getAll(name);
    if (all.length > 0) found[name] = MANY.has(name) ? all : (all[0] as string);
  }
  return found;
}
