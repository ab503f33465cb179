// What two texts differ in, line by line: the longest common run of lines stays, the rest is taken out or put in.
export interface Piece {
  kind: "same" | "out" | "in";
  text: string;
}

const MOST = 1500;

/** Null when the texts are too long to be compared here. */
export function difference(before: string, after: string): Piece[] | null {
  const old = before.split("\n");
  const now = after.split("\n");
  if (old.length > MOST || now.length > MOST) return null;
  const wide = now.length + 1;
  // At [i, j]: how many lines the rests from i and from j have in common.
  const common = new Uint16Array((old.length + 1) * wide);
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      common[i * wide + j] =
        old[i] === now[j] ? at(common, (i + 1) * wide + j + 1) + 1 : Math.max(at(common, (i + 1) * wide + j), at(common, i * wide + j + 1));
    }
  }
  const pieces: Piece[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      pieces.push({ kind: "same", text: old[i++] as string });
      j++;
    } else if (j >= now.length || (i < old.length && at(common, (i + 1) * wide + j) >= at(common, i * wide + j + 1))) {
      pieces.push({ kind: "out", text: old[i++] as string });
    } else pieces.push({ kind: "in", text: now[j++] as string });
  }
  return pieces;
}

function at(table: Uint16Array, index: number): number {
  return table[index] as number;
}
