// Who the server takes this browser for, and what that allows.
import { ApiError, get, json, onUnauthenticated, path, post, send, showSetupCode } from "../api/client";
import type { Role, Session } from "../api/types";
import { clock } from "../live/clock.svelte";
import { live } from "../live/live.svelte";
import { base } from "../router/base";

const RANK: Record<Role, number> = { viewer: 0, creator: 1, admin: 2, super_admin: 3 };

/** Signing in or out applies to all tabs. */
const tabs = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel(`penstock session ${base}`);

class SessionState {
  known: Session | null = $state.raw(null);
  /** Why there is none. */
  problem: unknown = $state.raw(null);
  /** Whether there was a session that expired, or whose token was revoked. */
  over = $state(false);

  constructor() {
    const look = () => {
      if (this.known !== null && this.known.role !== null) void this.read();
    };
    onUnauthenticated(look);
    live.closed = look;
    if (tabs !== null) tabs.onmessage = ({ data }: MessageEvent<"out" | "changed">) => (data === "out" ? this.leave() : void this.read());
  }

  /** Whether there is no session, so that a token is required. */
  get needsToken(): boolean {
    return this.known !== null && this.known.role === null;
  }

  /** Whether something of this role is allowed; what is not allowed is not shown. */
  may(role: Role): boolean {
    const own = this.known?.role as Role | null | undefined;
    return own !== null && own !== undefined && RANK[own] >= RANK[role];
  }

  /** Whether the server's setup code opens what only a super admin does. */
  get takesCode(): boolean {
    return this.known !== null && this.known.setupCode && !this.may("super_admin");
  }

  async enterCode(code: string): Promise<void> {
    showSetupCode(code);
    this.enter(await get<Session>(path("session")));
    if (!this.takesCode) return;
    showSetupCode("");
    throw new ApiError(403, "forbidden", "This is not the setup code of this server.", "", {}, null);
  }

  async read(): Promise<void> {
    try {
      let found = await get<Session>(path("session"));
      if (found.role === null && !found.closed) {
        // A cookie of an earlier store: without it, this one may well be open.
        await json("DELETE", path("session"));
        found = await get<Session>(path("session"));
      }
      this.enter(found);
    } catch (error) {
      this.problem = error;
    }
  }

  async signIn(token: string): Promise<void> {
    showSetupCode("");
    this.enter(await post<Session>(path("session"), { token }));
    tabs?.postMessage("changed");
  }

  async signOut(): Promise<void> {
    // Pages close before the session ends: their later requests would be refused.
    this.leave();
    tabs?.postMessage("out");
    try {
      await json("DELETE", path("session"));
    } finally {
      await this.read();
      this.over = false;
      tabs?.postMessage("changed");
    }
  }

  private leave(): void {
    send(false);
    if (this.known !== null) this.known = { ...this.known, role: null };
  }

  private enter(session: Session): void {
    this.problem = null;
    send(session.role !== null);
    if (session.role !== null) this.over = false;
    else if (this.known !== null && this.known.role !== null) this.over = true;
    this.known = session;
    if (session.role === null) return;
    void clock.measure();
    live.start();
  }
}

export const session = new SessionState();
