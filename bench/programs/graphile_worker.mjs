// graphile-worker: a local queue and batched completion, as in its own performance test.

import { Logger, makeWorkerUtils, run } from "graphile-worker";

import { ADDRESS, NOTHINGS, STAMPS, count, main, stamp } from "./speaking.mjs";

const logger = new Logger(() => () => {});
const THROUGHPUT = {
  concurrentJobs: 24,
  maxPoolSize: 25,
  localQueue: { size: Number(process.env.BENCH_LOCAL_QUEUE), refetchDelay: { durationMs: 10 } },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};
// A local queue trades latency for throughput: an idle worker goes without.
const LATENCY = { concurrentJobs: 4, maxPoolSize: 10 };

let utils;

await main({
  async prepare(fresh) {
    utils = await makeWorkerUtils({ connectionString: ADDRESS, maxPoolSize: 32, logger });
    if (fresh) await utils.migrate();
  },

  async single(jobs) {
    for (const [name, params] of jobs) await utils.addJob(name, params);
  },

  async concurrent(groups) {
    await Promise.all(groups.map((group) => this.single(group)));
  },

  async bulk(batches) {
    for (const batch of batches) {
      await utils.addJobs(batch.map(([identifier, payload]) => ({ identifier, payload })));
    }
  },

  async left() {
    const found = await utils.withPgClient((client) =>
      client.query("SELECT count(*)::integer AS jobs FROM graphile_worker._private_jobs"),
    );
    return found.rows[0].jobs;
  },

  async work() {
    const taskList = {};
    for (const name of NOTHINGS) taskList[name] = async () => count();
    for (const name of STAMPS) taskList[name] = async (payload) => stamp(payload.sent);
    const settings = STAMPS.length > 0 ? LATENCY : THROUGHPUT;
    const runner = await run({ preset: { worker: { connectionString: ADDRESS, logger, ...settings } }, taskList });
    await runner.promise;
  },
});
