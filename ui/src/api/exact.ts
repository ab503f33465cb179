// JSON read without loss: a payload stays the text it is, since numbers and the order of keys would not survive parsing.

const SPACE = /\s/;

/** The members of a JSON object as texts, by name. */
export function members(text: string): Map<string, string> {
  const found = new Map<string, string>();
  let at = skip(text, 0);
  if (text[at] !== "{") return found;
  at = skip(text, at + 1);
  while (at < text.length && text[at] !== "}") {
    const nameEnd = end(text, at);
    const name = JSON.parse(text.slice(at, nameEnd)) as string;
    const begin = skip(text, skip(text, nameEnd) + 1);
    at = end(text, begin);
    found.set(name, text.slice(begin, at));
    at = skip(text, at);
    if (text[at] === ",") at = skip(text, at + 1);
  }
  return found;
}

/** The elements of a JSON array as texts. */
export function elements(text: string): string[] {
  const found: string[] = [];
  let at = skip(text, 0);
  if (text[at] !== "[") return found;
  at = skip(text, at + 1);
  while (at < text.length && text[at] !== "]") {
    const stop = end(text, at);
    found.push(text.slice(at, stop));
    at = skip(text, stop);
    if (text[at] === ",") at = skip(text, at + 1);
  }
  return found;
}

/** The members of a JSON object that are not as they were, as a JSON object. */
export function changedMembers(before: string, after: string): string {
  const old = members(before);
  const fresh = [...members(after)].filter(([name, each]) => {
    const was = old.get(name);
    return was === undefined || laidOut(was) !== laidOut(each);
  });
  return `{${fresh.map(([name, each]) => `${JSON.stringify(name)}:${each}`).join(",")}}`;
}

/** The same JSON, laid out over lines; no value is changed. */
export function laidOut(text: string, indent = ""): string {
  const value = text.trim();
  const inner = `${indent}  `;
  if (value.startsWith("{")) {
    const all = [...members(value)].map(([name, each]) => `${inner}${JSON.stringify(name)}: ${laidOut(each, inner)}`);
    return all.length === 0 ? "{}" : `{\n${all.join(",\n")}\n${indent}}`;
  }
  if (value.startsWith("[")) {
    const all = elements(value).map((each) => `${inner}${laidOut(each, inner)}`);
    return all.length === 0 ? "[]" : `[\n${all.join(",\n")}\n${indent}]`;
  }
  return value;
}

/** What is wrong with a JSON text and in which line, or null. */
export function problem(text: string): { message: string; line: number } | null {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    const message = (error as Error).message;
    const place = /position (\d+)/.exec(message);
    const before = text.slice(0, place === null ? text.length : Number(place[1]));
    return { message: message.replace(/ in JSON at position.*/, ""), line: before.split("\n").length };
  }
}

function skip(text: string, at: number): number {
  while (at < text.length && SPACE.test(text[at] as string)) at++;
  return at;
}

/** Where the value that begins at a place ends. */
function end(text: string, at: number): number {
  const first = text[at];
  if (first === '"') return endOfString(text, at);
  if (first !== "{" && first !== "[") {
    while (at < text.length && !/[\s,\]}]/.test(text[at] as string)) at++;
    return at;
  }
  let depth = 0;
  while (at < text.length) {
    const each = text[at];
    if (each === '"') {
      at = endOfString(text, at);
      continue;
    }
    if (each === "{" || each === "[") depth++;
    if (each === "}" || each === "]") depth--;
    at++;
    if (depth === 0) return at;
  }
  return at;
}

function endOfString(text: string, at: number): number {
  at++;
  while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}
