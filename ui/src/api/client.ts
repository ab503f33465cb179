// Every request goes through here: one prefix, one shape of errors, payloads as text.
import { base } from "../router/base";
import type { Problem } from "./types";

/** What the server refused, or why it could not be asked. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string,
    readonly details: Record<string, unknown>,
    readonly requestId: string | null,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

export type Query = Record<string, string | number | boolean | null | undefined | readonly string[]>;

interface Options {
  query?: Query | URLSearchParams;
  /** A value, or `raw` JSON text that is sent as it is. */
  body?: unknown;
  raw?: string;
  revision?: number | null;
  signal?: AbortSignal;
}

type Listener = (error: ApiError) => void;
let refused: Listener = () => {};

/** Say what is to be done when a session is over. */
export function onUnauthenticated(listener: Listener): void {
  refused = listener;
}

let sending = true;

/** Set whether requests are sent at all: without a session they would be refused. */
export function send(allowed: boolean): void {
  sending = allowed;
}

let setupCode = "";

/** Show the setup code with all requests from now on; empty: none. It is kept in this page alone. */
export function showSetupCode(code: string): void {
  setupCode = code;
}

/** The parts of a path below /v1, quoted: names may hold slashes. */
export function path(...parts: (string | number)[]): string {
  return ["v1", ...parts.map((each) => encodeURIComponent(String(each)))].join("/");
}

/** The text of an answer, exactly as it came. */
export async function text(method: string, target: string, options: Options = {}): Promise<string> {
  if (!sending && target !== path("session")) throw new ApiError(401, "unauthenticated", "You are signed out.", "Sign in to go on.", {}, null);
  const headers: Record<string, string> = { Accept: "application/json" };
  const body = options.raw ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (setupCode !== "") headers["X-Penstock-Setup-Code"] = setupCode;
  if (options.revision !== undefined && options.revision !== null) headers["If-Match"] = `"${options.revision}"`;
  let answer: Response;
  try {
    answer = await fetch(`${base}${target}${queried(options.query)}`, {
      method,
      headers,
      body,
      signal: options.signal,
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The server does not answer.", "It may be restarting; try again.", {}, null);
  }
  const told = await answer.text();
  if (answer.ok) return told;
  const problem = refusal(answer, told);
  if (problem.code === "unauthenticated") refused(problem);
  throw problem;
}

/** An answer as a value; for payloads whose exact text matters use `text` and `members`. */
export async function json<T>(method: string, target: string, options: Options = {}): Promise<T> {
  const told = await text(method, target, options);
  return (told === "" ? null : JSON.parse(told)) as T;
}

export const get = <T>(target: string, query?: Options["query"], signal?: AbortSignal): Promise<T> =>
  json<T>("GET", target, { query, signal });

export const post = <T>(target: string, body?: unknown, options: Options = {}): Promise<T> =>
  json<T>("POST", target, { ...options, body });

function queried(query: Options["query"]): string {
  if (query === undefined) return "";
  const all = query instanceof URLSearchParams ? query : new URLSearchParams();
  if (!(query instanceof URLSearchParams)) {
    for (const [name, value] of Object.entries(query)) {
      if (value === null || value === undefined || value === "") continue;
      for (const each of Array.isArray(value) ? value : [value]) all.append(name, String(each));
    }
  }
  const written = all.toString();
  return written === "" ? "" : `?${written}`;
}

function refusal(answer: Response, told: string): ApiError {
  const id = answer.headers.get("x-request-id");
  try {
    const { error } = JSON.parse(told) as { error: Problem };
    return new ApiError(answer.status, error.code, error.message, error.hint, error.details, id);
  } catch {
    return new ApiError(answer.status, "unknown", `The server answered with ${answer.status}.`, "", {}, id);
  }
}
