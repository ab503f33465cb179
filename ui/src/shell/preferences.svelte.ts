// What this browser remembers about its user.
const KEY = "penstock.preferences";

export type Theme = "system" | "light" | "dark";
export type Density = "comfortable" | "compact";

interface Kept {
  theme: Theme;
  density: Density;
  /** Whether single keys act (WCAG 2.1.4). */
  keys: boolean;
  narrow: boolean;
  utc: boolean;
  greeted: boolean;
}

const PLAIN: Kept = { theme: "system", density: "comfortable", keys: true, narrow: false, utc: false, greeted: false };

class Preferences {
  private kept: Kept = $state(read());

  get theme() { return this.kept.theme; }
  set theme(value: Theme) {
    this.keep({ theme: value });
    if (value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = value;
  }

  get density() { return this.kept.density; }
  set density(value: Density) {
    this.keep({ density: value });
    if (value === "comfortable") delete document.documentElement.dataset.density;
    else document.documentElement.dataset.density = value;
  }

  get keys() { return this.kept.keys; }
  set keys(value: boolean) { this.keep({ keys: value }); }
  get narrow() { return this.kept.narrow; }
  set narrow(value: boolean) { this.keep({ narrow: value }); }
  get utc() { return this.kept.utc; }
  set utc(value: boolean) { this.keep({ utc: value }); }
  get greeted() { return this.kept.greeted; }
  set greeted(value: boolean) { this.keep({ greeted: value }); }

  /** Light, dark, as the system says, and again. */
  nextTheme(): void {
    const order: Theme[] = ["system", "light", "dark"];
    this.theme = order[(order.indexOf(this.theme) + 1) % order.length] as Theme;
  }

  private keep(change: Partial<Kept>): void {
    Object.assign(this.kept, change);
    try {
      localStorage.setItem(KEY, JSON.stringify(this.kept));
    } catch {
      // Without storage they last as long as the page.
    }
  }
}

function read(): Kept {
  try {
    return { ...PLAIN, ...(JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Kept>) };
  } catch {
    return { ...PLAIN };
  }
}

export const preferences = new Preferences();
