// The filters of the list of jobs: the same names in the address, in the API and in what is done in bulk.
export interface Filter {
  name: string;
  label: string;
  kind: "text" | "status" | "definition" | "moment" | "param";
  hint?: string;
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
  { name: "error", label: "Error text", kind: "text" },
  { name: "params", label: "Parameter", kind: "param", hint: "orderId=7" },
];

/** A filter in use: `name` is that of the query parameter, `params.orderId` for the parameter `orderId`. */
export interface InUse {
  filter: Filter;
  name: string;
  text: string;
}

const MANY = new Set(["status", "jobId"]);

const filterOf = (name: string): Filter | undefined =>
  JOB_FILTERS.find((each) => (each.kind === "param" ? name.startsWith(`${each.name}.`) : name === each.name));

/** The filters that a query holds. */
export function inUse(query: URLSearchParams): InUse[] {
  return [...query].flatMap(([name, text]) => {
    const filter = filterOf(name);
    return filter === undefined ? [] : [{ filter, name, text }];
  });
}

/** What takes all filters out of a query. */
export const cleared = (query: URLSearchParams): Record<string, null> =>
  Object.fromEntries(inUse(query).map((each) => [each.name, null]));

/** Whether errors or parameters are searched: only the newest jobs are looked through then. */
export const searches = (query: URLSearchParams): boolean =>
  inUse(query).some(({ filter }) => filter.name === "error" || filter.kind === "param");

/** The query of the API from the query of the page. */
export function asked(query: URLSearchParams): URLSearchParams {
  const found = new URLSearchParams();
  for (const { name, text } of inUse(query)) found.append(name, text);
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
