// Holds the connection for all tabs of a browser: over HTTP/1.1 there are six in all.
import { Connection } from "./connection";
import type { FromSource, ToSource } from "./messages";

const ports = new Set<MessagePort>();
let connection: Connection | null = null;

function send(message: FromSource): void {
  for (const port of ports) port.postMessage(message);
}

(self as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = (event) => {
  const port = event.ports[0] as MessagePort;
  port.onmessage = ({ data }: MessageEvent<ToSource>) => {
    if (data.ask === "open") {
      ports.add(port);
      connection ??= new Connection(data.url, send);
      port.postMessage({ say: "state", state: connection.state } satisfies FromSource);
    } else if (data.ask === "again") connection?.again();
    else if (data.ask === "leave") ports.delete(port);
  };
};
