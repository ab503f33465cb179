// The icon of the browser's tab: the state of what the page is about, as a mark in its colour.
import type { Look, Tone } from "../data/words";

// A tab is light or dark by the browser's own choice, so these hold on both.
const COLOURS: Record<Tone, string> = { good: "#1a7f4b", bad: "#c8323c", warn: "#b26a00", busy: "#2563eb", quiet: "#6b7280", ask: "#7c3aed" };
const link = () => document.querySelector<HTMLLinkElement>('link[rel="icon"]');
const plain = link()?.getAttribute("href") ?? "./icon.svg";

/** Show a state with how far it is, 0 to 100; the answer puts the plain icon back. */
export function showIcon(look: Look, progress: number | null): () => void {
  const round = 2 * Math.PI * 13;
  const ring = progress === null ? "" : `<circle cx="16" cy="16" r="13" fill="none" stroke="${COLOURS[look.tone]}" stroke-width="5" stroke-dasharray="${(progress / 100) * round} ${round}" transform="rotate(-90 16 16)"/>`;
  const body =
    progress === null
      ? `<rect width="32" height="32" rx="8" fill="${COLOURS[look.tone]}"/><text x="16" y="23" font-size="20" font-family="sans-serif" text-anchor="middle" fill="#fff">${look.mark}</text>`
      : `<circle cx="16" cy="16" r="13" fill="#fff" stroke="#d5dae3" stroke-width="5"/>${ring}`;
  link()?.setAttribute("href", `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">${body}</svg>`)}`);
  return () => link()?.setAttribute("href", plain);
}
