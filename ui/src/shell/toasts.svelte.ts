// Short messages in the corner; errors stay until they are closed.
import { ApiError } from "../api/client";

export interface Toast {
  id: number;
  kind: "done" | "error";
  text: string;
  hint: string;
  requestId: string | null;
  link: string | null;
}

const SECONDS = 6;

class Toasts {
  all: Toast[] = $state([]);
  private next = 1;

  done(text: string, link: string | null = null): void {
    const id = this.add({ kind: "done", text, hint: "", requestId: null, link });
    setTimeout(() => this.close(id), SECONDS * 1000);
  }

  error(error: unknown): void {
    // The page to sign in says it.
    if (error instanceof ApiError && error.code === "unauthenticated") return;
    if (error instanceof ApiError) {
      this.add({ kind: "error", text: error.message, hint: error.hint, requestId: error.requestId, link: null });
    } else {
      this.add({ kind: "error", text: String((error as Error)?.message ?? error), hint: "", requestId: null, link: null });
    }
  }

  close(id: number): void {
    this.all = this.all.filter((each) => each.id !== id);
  }

  private add(toast: Omit<Toast, "id">): number {
    const id = this.next++;
    this.all = [...this.all.slice(-4), { id, ...toast }];
    return id;
  }
}

export const toasts = new Toasts();

/** Do something that may be refused: its refusal becomes a toast. True when it was done. */
export async function attempt(call: () => Promise<unknown>, said?: string | (() => string)): Promise<boolean> {
  try {
    await call();
    if (said !== undefined) toasts.done(typeof said === "string" ? said : said());
    return true;
  } catch (error) {
    toasts.error(error);
    return false;
  }
}
