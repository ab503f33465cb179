// pg-boss: batches of 500 to a handler, two at once, fetched without a pause while they are full; LISTEN when idle.

import { PgBoss } from "pg-boss";

import { ADDRESS, NOTHINGS, STAMP, STAMPS, count, main, stamp } from "./speaking.mjs";

const BATCH = 500;
let boss;

await main({
  async prepare(fresh) {
    boss = await started({ max: 32, supervise: false, schedule: false });
    if (!fresh) return;
    for (const name of NOTHINGS) await boss.createQueue(name);
    await boss.createQueue(STAMP, { notify: true });
  },

  async single(jobs) {
    for (const [name, params] of jobs) await boss.send(name, params);
  },

  async concurrent(groups) {
    await Promise.all(groups.map((group) => this.single(group)));
  },

  async bulk(batches) {
    for (const batch of batches) {
      await boss.insert(batch[0][0], batch.map(([, data]) => ({ data })));
    }
  },

  async left() {
    const { rows } = await boss
      .getDb()
      .executeSql("SELECT count(*)::integer AS jobs FROM pgboss.job WHERE state <> 'completed'");
    return rows[0].jobs;
  },

  async work() {
    boss = await started({ useListenNotify: true });
    const options = { batchSize: BATCH, burstWhenBatchFull: true, localConcurrency: 2, pollingIntervalSeconds: 0.5 };
    for (const name of NOTHINGS) await boss.work(name, options, async (jobs) => count(jobs.length));
    for (const name of STAMPS) await boss.work(name, async ([job]) => stamp(job.data.sent));
    process.on("SIGTERM", () => void boss.stop({ graceful: true, timeout: 2000 }).then(() => process.exit(0)));
  },
});

async function started(options) {
  const made = new PgBoss({ connectionString: ADDRESS, ...options });
  made.on("error", (error) => console.error(error));
  return made.start();
}
