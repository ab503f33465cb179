// Where a tab gets its events from: a shared worker; else the tab that leads; else a connection of its own.
import { Connection } from "./connection";
import type { FromSource, ToSource } from "./messages";

export interface Source {
  again(): void;
}

export function open(url: string, name: string, take: (message: FromSource) => void): Source {
  if (typeof SharedWorker !== "undefined") return shared(url, name, take);
  return led(url, name, take);
}

function shared(url: string, name: string, take: (message: FromSource) => void): Source {
  let source: Source | null = null;
  const worker = new SharedWorker(new URL("./shared-worker.ts", import.meta.url), { type: "module", name });
  const ask = (message: ToSource) => worker.port.postMessage(message);
  worker.onerror = () => (source ??= led(url, name, take));
  worker.port.onmessage = ({ data }: MessageEvent<FromSource>) => take(data);
  ask({ ask: "open", url });
  addEventListener("pagehide", () => ask({ ask: "leave" }));
  addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    ask({ ask: "open", url });
    take({ say: "resync" });
  });
  return { again: () => (source === null ? ask({ ask: "again" }) : source.again()) };
}

function led(url: string, name: string, take: (message: FromSource) => void): Source {
  if (typeof BroadcastChannel === "undefined" || navigator.locks === undefined) return new Connection(url, take);
  const channel = new BroadcastChannel(name);
  let connection: Connection | null = null;
  channel.onmessage = ({ data }: MessageEvent<FromSource | ToSource>) => {
    if ("say" in data) take(data);
    else if (data.ask === "again") connection?.again();
    else if (data.ask === "state" && connection !== null) channel.postMessage({ say: "state", state: connection.state });
  };
  channel.postMessage({ ask: "state" } satisfies ToSource);
  // Held until this tab is closed; then the next in line leads.
  void navigator.locks.request(name, () => {
    connection = new Connection(url, (message) => {
      take(message);
      channel.postMessage(message);
    });
    return new Promise<never>(() => {});
  });
  return {
    again: () => (connection === null ? channel.postMessage({ ask: "again" } satisfies ToSource) : connection.again()),
  };
}
