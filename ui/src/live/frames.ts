// Server-sent events from text that arrives in pieces. Unlike EventSource it hands over events of every name.
export interface Frame {
  event: string;
  id: string | null;
  data: string;
}

export class Frames {
  private rest = "";

  /** Take a piece of text; the frames that it completes. */
  take(piece: string): Frame[] {
    this.rest += piece;
    const blocks = this.rest.split(/\n\n/);
    this.rest = blocks.pop() ?? "";
    return blocks.map(frame).filter((each) => each !== null);
  }
}

function frame(block: string): Frame | null {
  let event = "message";
  let id: string | null = null;
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    const name = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") event = value;
    else if (name === "id") id = value;
    else if (name === "data") data.push(value);
  }
  return data.length === 0 ? null : { event, id, data: data.join("\n") };
}
