// The part of JSON Schema that forms can be made of; what it does not know becomes a field of JSON.
import { members } from "../api/exact";

export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  $ref?: string;
  $defs?: Record<string, Schema>;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  format?: string;
}

export type Kind = "string" | "number" | "integer" | "boolean" | "choice" | "array" | "object" | "json";

export interface Shape {
  kind: Kind;
  schema: Schema;
  /** Whether null is a value of it. */
  nullable: boolean;
}

/** What a schema asks for, with references followed. */
export function shapeOf(schema: Schema, definitions: Record<string, Schema>, depth = 0): Shape {
  if (depth > 20) return { kind: "json", schema, nullable: false };
  if (schema.$ref !== undefined) {
    const name = schema.$ref.replace("#/$defs/", "");
    return shapeOf({ ...definitions[name], ...without(schema, "$ref") }, definitions, depth + 1);
  }
  if (schema.allOf?.length === 1) return shapeOf({ ...schema.allOf[0], ...without(schema, "allOf") }, definitions, depth + 1);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) {
    const real = choices.filter((each) => each.type !== "null");
    if (real.length !== 1) return { kind: "json", schema, nullable: false };
    const inner = shapeOf({ ...real[0], ...without(schema, "anyOf", "oneOf") }, definitions, depth + 1);
    return { ...inner, nullable: real.length < choices.length };
  }
  if (schema.enum !== undefined) return { kind: "choice", schema, nullable: false };
  const types = Array.isArray(schema.type) ? schema.type.filter((each) => each !== "null") : [schema.type];
  const nullable = Array.isArray(schema.type) && schema.type.includes("null");
  const type = types.length === 1 ? types[0] : undefined;
  if (type === "object") return { kind: schema.properties === undefined ? "json" : "object", schema, nullable };
  if (type === "array") return { kind: schema.items === undefined ? "json" : "array", schema, nullable };
  if (type === "string" || type === "number" || type === "integer" || type === "boolean") return { kind: type, schema, nullable };
  return { kind: "json", schema, nullable };
}

/** The text that a new value of a shape begins with. */
export function beginning(shape: Shape): string {
  if (shape.schema.default !== undefined) return JSON.stringify(shape.schema.default);
  const first = shape.schema.enum?.[0];
  const plain: Record<Kind, string> = {
    string: '""', number: "0", integer: "0", boolean: "false", array: "[]", object: "{}", json: "null",
    choice: first === undefined ? "null" : JSON.stringify(first),
  };
  return plain[shape.kind];
}

/** An object's text with one member set, or removed when the text is undefined; the others stay as they are. */
export function withMember(object: string, name: string, text: string | undefined): string {
  const all = members(object);
  if (text === undefined) all.delete(name);
  else all.set(name, text);
  return `{${[...all].map(([key, value]) => `${JSON.stringify(key)}: ${value}`).join(", ")}}`;
}

function without(schema: Schema, ...names: (keyof Schema)[]): Schema {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => !names.includes(name as keyof Schema)));
}
