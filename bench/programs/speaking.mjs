// How the Node programs are spoken with: the same as speaking.py and counting.py.

import { openSync, statSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";

const CALLERS = 32;

export const ADDRESS = process.env.BENCH_ADDRESS;
export const STAMP = "stamp";
export const NOTHINGS = Array.from(
  { length: Number(process.env.BENCH_DEFINITIONS ?? 0) },
  (_, number) => `nothing_${number}`,
);
export const STAMPS = process.env.BENCH_STAMP === "1" ? [STAMP] : [];

let file;
let seen = 0;

/** So many more jobs have run; the file hears of it every few milliseconds. */
export function count(jobs = 1) {
  if (seen === 0) {
    setTimeout(() => {
      const told = seen;
      seen = 0;
      write(".".repeat(told));
    }, 5);
  }
  seen += jobs;
}

/** Write down how many nanoseconds lie between the call that created the job and now. */
export function stamp(sent) {
  write(`${Number(process.hrtime.bigint()) - sent}\n`);
}

export async function main(program) {
  if (process.argv[2] === "work") {
    await program.work();
    return;
  }
  for await (const line of createInterface({ input: process.stdin })) {
    const answer = await obey(program, JSON.parse(line));
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
  process.exit(0);
}

async function obey(program, order) {
  if (order.verb === "prepare") {
    await program.prepare(order.fresh);
    return {};
  }
  if (order.verb === "left") return { left: await program.left() };
  if (order.verb === "stamp") {
    await program.single([[STAMP, { sent: Number(process.hrtime.bigint()) }]]);
    return {};
  }
  if (order.verb === "pick-up") {
    await pickUp(program, order.count, order.tally);
    return {};
  }
  const params = order.bytes ? { text: "x".repeat(order.bytes) } : {};
  if (order.verb === "bulk") {
    const made = batches(order.count, order.batch, order.definitions, params);
    return { seconds: await seconds(() => program.bulk(made)) };
  }
  const first = ["nothing_0", params];
  if (order.verb === "single") {
    await program.single([first]);
    return { seconds: await seconds(() => program.single(Array(order.count - 1).fill(first))) };
  }
  await program.concurrent(Array(CALLERS).fill([first]));
  const group = Array(Math.floor(order.count / CALLERS) - 1).fill(first);
  return { seconds: await seconds(() => program.concurrent(Array(CALLERS).fill(group))) };
}

async function seconds(task) {
  const began = process.hrtime.bigint();
  await task();
  return Number(process.hrtime.bigint() - began) / 1e9;
}

function batches(count, most, definitions, params) {
  const size = Math.max(1, Math.min(most, Math.floor(count / definitions)));
  const made = [];
  for (let start = 0; start < count; start += size) {
    made.push(Array(Math.min(size, count - start)).fill([`nothing_${made.length % definitions}`, params]));
  }
  return made;
}

async function pickUp(program, samples, tally) {
  for (let sample = 0; sample < samples; sample++) {
    const before = statSync(tally).size;
    await program.single([[STAMP, { sent: Number(process.hrtime.bigint()) }]]);
    const deadline = Date.now() + 60_000;
    while (statSync(tally).size === before) {
      if (Date.now() > deadline) throw new Error("A job was not picked up within a minute.");
      await sleep(2);
    }
    await sleep(10 + 20 * Math.random());
  }
}

function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function write(text) {
  file ??= openSync(process.env.BENCH_TALLY, "a");
  writeSync(file, text);
}
