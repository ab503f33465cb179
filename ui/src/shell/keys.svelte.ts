// The key map: components bind keys while they are shown; the help page lists what is bound.
import { preferences } from "./preferences.svelte";

export interface Binding {
  /** "r", "R", "Escape", "Ctrl+k", or two after each other: "g j". */
  keys: string;
  label: string;
  group?: string;
  run: (event: KeyboardEvent) => void;
}

const PATIENCE = 1200;

class Keys {
  bound: Binding[] = $state.raw([]);
  private first: { key: string; at: number } | null = null;

  start(): void {
    addEventListener("keydown", (event) => this.press(event));
  }

  /** Bind keys; the answer unbinds them. In a component: `$effect(() => keys.bind([...]))`. */
  bind(bindings: Binding[]): () => void {
    // The latest binding comes first; untracked since effects must not depend on it.
    queueMicrotask(() => (this.bound = [...bindings, ...this.bound]));
    return () => queueMicrotask(() => (this.bound = this.bound.filter((each) => !bindings.includes(each))));
  }

  private press(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.altKey || event.isComposing) return;
    const chord = event.ctrlKey || event.metaKey;
    const key = chord ? `Ctrl+${event.key.toLowerCase()}` : event.key;
    if (!chord && key !== "Escape" && (!preferences.keys || typing(event.target))) return;
    if (document.querySelector("dialog[open]") !== null && key !== "Ctrl+k") return;
    if (chord && typing(event.target) && key !== "Ctrl+k") return;
    const now = Date.now();
    const pair = this.first !== null && now - this.first.at < PATIENCE ? `${this.first.key} ${key}` : "";
    const found = this.bound.find((each) => each.keys === pair) ?? this.bound.find((each) => each.keys === key);
    this.first = found === undefined && this.bound.some((each) => each.keys.startsWith(`${key} `)) ? { key, at: now } : null;
    if (found === undefined) return;
    // A button that has the focus is pressed by these, and a link followed.
    if ((key === "Enter" || key === " ") && (event.target as Element).closest("a, button, summary, [role=tab]")) return;
    event.preventDefault();
    found.run(event);
  }
}

function typing(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  if (element === null || !("tagName" in element)) return false;
  if (element.tagName === "INPUT") return !["checkbox", "radio", "button"].includes((element as HTMLInputElement).type);
  return ["TEXTAREA", "SELECT"].includes(element.tagName) || element.isContentEditable;
}

export const keys = new Keys();
