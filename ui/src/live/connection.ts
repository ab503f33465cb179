// The one connection: reads the feed, resumes after a disconnect, and reports its state.
import type { ApiEvent } from "../api/types";
import { type Frame, Frames } from "./frames";
import type { FromSource, Line, LineState } from "./messages";

const PACE = 200;
const SILENCE = 40_000;
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15_000;
const MOST_AT_ONCE = 1000;

export class Connection {
  state: LineState = { line: "connecting", since: Date.now(), reconnects: 0, lastId: "", lastAt: 0 };
  private waiting: ApiEvent[] = [];
  private handing: ReturnType<typeof setTimeout> | undefined;
  private watching: ReturnType<typeof setTimeout> | undefined;
  private pause = FIRST_PAUSE;
  private wake: () => void = () => {};
  private overflow = false;

  constructor(
    private readonly url: string,
    private readonly send: (message: FromSource) => void,
  ) {
    void this.run();
  }

  /** Try at once, as after signing in. */
  again(): void {
    this.pause = FIRST_PAUSE;
    this.wake();
  }

  private async run(): Promise<never> {
    for (;;) {
      try {
        await this.read();
      } catch {
        if (this.state.line !== "closed" && this.state.line !== "restarting") this.say("offline");
      }
      clearTimeout(this.watching);
      const wait = this.state.line === "closed" ? 2 ** 30 : this.pause * (0.5 + Math.random());
      this.pause = Math.min(LONGEST_PAUSE, this.pause * 2);
      await new Promise<void>((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, wait);
      });
      this.state = { ...this.state, reconnects: this.state.reconnects + 1 };
    }
  }

  private async read(): Promise<void> {
    const stop = new AbortController();
    this.watch(stop);
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (this.state.lastId !== "") headers["Last-Event-ID"] = this.state.lastId;
    const answer = await fetch(this.url, { headers, signal: stop.signal, credentials: "same-origin", cache: "no-store" });
    if (answer.status === 401 || answer.status === 403) {
      this.say("closed");
      return;
    }
    if (!answer.ok || answer.body === null) {
      // A place that this server does not know: another store, perhaps.
      if (answer.status === 400) this.state = { ...this.state, lastId: "" };
      throw new Error(`status ${answer.status}`);
    }
    const fresh = this.state.lastId === "";
    this.pause = FIRST_PAUSE;
    this.say("live");
    if (fresh) this.send({ say: "resync" });
    const reader = answer.body.getReader();
    const decoder = new TextDecoder();
    const frames = new Frames();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      this.watch(stop);
      for (const each of frames.take(decoder.decode(value, { stream: true }))) this.take(each);
    }
    if (this.state.line === "live") throw new Error("cut off");
  }

  private take(frame: Frame): void {
    this.state = { ...this.state, lastId: frame.id ?? this.state.lastId, lastAt: Date.now() };
    if (frame.event === "ping") this.send({ say: "state", state: this.state });
    else if (frame.event === "bye") this.say("restarting");
    else if (frame.event === "resync") this.send({ say: "resync" });
    else this.keep(JSON.parse(frame.data) as ApiEvent);
  }

  /** Events are handed on a few times a second, so that a busy store does not redraw every page all the time. */
  private keep(event: ApiEvent): void {
    if (this.waiting.length >= MOST_AT_ONCE) {
      this.waiting = [];
      this.overflow = true;
    }
    if (!this.overflow) this.waiting.push(event);
    this.handing ??= setTimeout(() => {
      this.handing = undefined;
      this.send(this.overflow ? { say: "resync" } : { say: "events", events: this.waiting });
      this.waiting = [];
      this.overflow = false;
    }, PACE);
  }

  private watch(stop: AbortController): void {
    clearTimeout(this.watching);
    this.watching = setTimeout(() => stop.abort(), SILENCE);
  }

  private say(line: Line): void {
    const since = line === this.state.line ? this.state.since : Date.now();
    this.state = { ...this.state, line, since };
    this.send({ say: "state", state: this.state });
  }
}
