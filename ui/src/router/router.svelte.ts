// The address is the state: pages read their filters from it and write them back.
import { base } from "./base";

export type PageName =
  | "overview" | "jobs" | "job" | "reviews" | "errors" | "definitions" | "definition" | "schedules" | "schedule"
  | "workers" | "webhooks" | "webhook" | "alerts" | "settings" | "unknown";

export interface Place {
  page: PageName;
  /** What the address names: a job's id, a definition's key. */
  name: string;
  query: URLSearchParams;
}

const LISTS: Record<string, PageName> = {
  "": "overview", jobs: "jobs", reviews: "reviews", errors: "errors", definitions: "definitions",
  schedules: "schedules", workers: "workers", webhooks: "webhooks", alerts: "alerts", settings: "settings",
};
const SINGLES: Record<string, PageName> = { jobs: "job", definitions: "definition", schedules: "schedule", webhooks: "webhook" };

class Router {
  place: Place = $state.raw(read());

  constructor() {
    addEventListener("popstate", () => (this.place = read()));
    document.addEventListener("click", (event) => this.follow(event));
  }

  /** Go to another address of ours, written relative to the base: "jobs?status=failed". */
  go(target: string, { replace = false } = {}): void {
    const url = new URL(target, document.baseURI);
    if (url.href === location.href) return;
    history[replace ? "replaceState" : "pushState"](null, "", url);
    const before = this.place;
    this.place = read();
    if (before.page !== this.place.page || before.name !== this.place.name) {
      scrollTo(0, 0);
      requestAnimationFrame(() => document.querySelector<HTMLElement>("main")?.focus());
    }
  }

  /** Change parts of the query of the place where we are; null and "" remove one. */
  set(changes: Record<string, string | readonly string[] | null>, { replace = true } = {}): void {
    const query = new URLSearchParams(this.place.query);
    for (const [name, value] of Object.entries(changes)) {
      query.delete(name);
      for (const each of value === null ? [] : typeof value === "string" ? [value] : value) {
        if (each !== "") query.append(name, each);
      }
    }
    const written = query.toString();
    this.go(`${location.pathname}${written === "" ? "" : `?${written}`}`, { replace });
  }

  private follow(event: MouseEvent): void {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const anchor = (event.target as Element | null)?.closest?.("a");
    if (!anchor || anchor.target !== "" || anchor.hasAttribute("download") || anchor.origin !== location.origin) return;
    if (!anchor.pathname.startsWith(base) || anchor.dataset.outside !== undefined) return;
    event.preventDefault();
    this.go(anchor.href);
  }
}

/** The address of something, relative to the base: `link("jobs", id)`. Names are quoted. */
export function link(...parts: string[]): string {
  return parts.length === 0 ? "./" : parts.map(encodeURIComponent).join("/");
}

function read(): Place {
  const parts = location.pathname.slice(base.length).split("/").map(unquoted);
  const query = new URLSearchParams(location.search);
  const [first = "", ...rest] = parts;
  const name = rest.join("/");
  const page = name === "" ? LISTS[first] : SINGLES[first];
  return { page: page ?? "unknown", name, query };
}

function unquoted(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const router = new Router();
