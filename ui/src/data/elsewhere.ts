// The same thing outside of the browser: as a command, with curl, in Python.

const PLAIN = /^[\w@%+=:,./-]+$/;

/** A word of a command line. */
export function shell(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** JSON text as a Python expression with the same value. */
export function python(json: string): string {
  const token = /"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g;
  const words: Record<string, string> = { true: "True", false: "False", null: "None" };
  // Python knows no "\/"; encoded again, a string has only escapes that both know.
  return json.replaceAll(token, (found) => words[found] ?? JSON.stringify(JSON.parse(found)));
}

/** A request with a JSON body. */
export function curl(method: string, address: string, body: string): string {
  return `curl -X ${method} ${shell(new URL(address, document.baseURI).href)} -H 'Content-Type: application/json' -d ${shell(body)}`;
}
