// BullMQ: producers and workers, delayed jobs, retries, priorities, rate limits, flows, repeatable jobs, stalled jobs. Nearly all of it is Lua.
'use strict';
const { Queue, Worker, QueueEvents, FlowProducer } = require('bullmq');
const { assert, equal, sleep, until, run } = require('./checks');

const connection = { host: '127.0.0.1', port: 6379, maxRetriesPerRequest: null };
let count = 0;

async function withQueue(work, use, options = {}) {
  const name = `queue-${++count}`;
  const queue = new Queue(name, { connection });
  const worker = work && new Worker(name, work, { connection, concurrency: 8, ...options });
  const errors = [];
  if (worker) worker.on('error', (error) => errors.push(error.message));
  try {
    await use(queue, worker, name);
  } finally {
    if (worker) await worker.close(true);
    await queue.close();
  }
  equal(errors, []);
}

const all = async (queue) => queue.getJobCounts('completed', 'failed', 'waiting', 'active', 'delayed', 'prioritized');

run({
  async 'jobs are completed'() {
    await withQueue(async (job) => job.data.n * 2, async (queue) => {
      for (let part = 0; part < 10; part++) {
        await queue.addBulk(Array.from({ length: 100 }, (_, n) => ({ name: 'job', data: { n, padding: 'x'.repeat(500) } })));
      }
      await until(async () => (await queue.getCompletedCount()) === 1000, 'all completed');
      const jobs = await queue.getJobs(['completed'], 0, -1);
      equal(jobs.length, 1000);
      assert(jobs.every((job) => job.returnvalue === job.data.n * 2), 'a wrong result');
      const counts = await all(queue);
      equal([counts.completed, counts.failed, counts.waiting, counts.active, counts.delayed, counts.prioritized], [1000, 0, 0, 0, 0, 0]);
    });
  },
  async 'several producers and workers'() {
    const seen = new Set();
    await withQueue(async (job) => { assert(!seen.has(job.id), 'twice'); seen.add(job.id); }, async (queue, worker, name) => {
      const others = [1, 2, 3].map(() => new Worker(name, async (job) => { assert(!seen.has(job.id), 'twice'); seen.add(job.id); }, { connection, concurrency: 4 }));
      const producers = [1, 2, 3, 4].map(() => new Queue(name, { connection }));
      await Promise.all(producers.map(async (producer) => { for (let n = 0; n < 150; n++) await producer.add('job', { n }); }));
      await until(async () => (await queue.getCompletedCount()) === 600, 'all completed');
      equal(seen.size, 600);
      await Promise.all([...others, ...producers].map((each) => each.close()));
    });
  },
  async 'delayed jobs run in order'() {
    const order = [];
    await withQueue(async (job) => { order.push(job.data.n); }, async (queue) => {
      for (let n = 9; n >= 0; n--) await queue.add('job', { n }, { delay: 500 + n * 150 });
      equal(await queue.getDelayedCount(), 10);
      await until(() => order.length === 10, 'all ran');
      equal(order, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }, { concurrency: 1 });
  },
  async 'failures are retried with backoff'() {
    await withQueue(async (job) => { if (job.attemptsMade < 2) throw new Error('again'); return 'done'; }, async (queue) => {
      const jobs = await Promise.all(Array.from({ length: 20 }, (_, n) => queue.add('job', { n }, { attempts: 3, backoff: { type: 'fixed', delay: 100 } })));
      await until(async () => (await queue.getCompletedCount()) === 20, 'all completed');
      equal((await queue.getJob(jobs[0].id)).attemptsMade, 3);
    });
  },
  async 'failed jobs are kept, and retried by hand'() {
    let fail = true;
    await withQueue(async () => { if (fail) throw new Error('on purpose'); }, async (queue) => {
      await queue.addBulk(Array.from({ length: 30 }, () => ({ name: 'job', data: {} })));
      await until(async () => (await queue.getFailedCount()) === 30, 'all failed');
      const [job] = await queue.getFailed(0, 0);
      equal(job.failedReason, 'on purpose');
      fail = false;
      await queue.retryJobs();
      await until(async () => (await queue.getCompletedCount()) === 30, 'all completed');
    });
  },
  async 'priorities'() {
    const order = [];
    await withQueue(null, async (queue, _, name) => {
      for (let n = 0; n < 30; n++) await queue.add('job', { n }, { priority: (n % 3) + 1 });
      const worker = new Worker(name, async (job) => { order.push(job.opts.priority); }, { connection, concurrency: 1 });
      await until(() => order.length === 30, 'all ran');
      equal(order, [...order].sort());
      await worker.close();
    });
  },
  async 'first in, first out and last in, first out'() {
    const order = [];
    await withQueue(null, async (queue, _, name) => {
      for (let n = 0; n < 10; n++) await queue.add('job', { n }, { lifo: n >= 5 });
      const worker = new Worker(name, async (job) => { order.push(job.data.n); }, { connection, concurrency: 1 });
      await until(() => order.length === 10, 'all ran');
      equal(order, [9, 8, 7, 6, 5, 0, 1, 2, 3, 4]);
      await worker.close();
    });
  },
  async 'a rate limit'() {
    const times = [];
    await withQueue(async () => { times.push(Date.now()); }, async (queue) => {
      await queue.addBulk(Array.from({ length: 30 }, () => ({ name: 'job', data: {} })));
      await until(() => times.length === 30, 'all ran');
      assert(times[29] - times[0] > 1800, `30 jobs in ${times[29] - times[0]} ms with 10 per second`);
    }, { limiter: { max: 10, duration: 1000 } });
  },
  async 'a flow, the parent runs after its children'() {
    const order = [];
    await withQueue(async (job) => { order.push(job.name); return job.name === 'parent' ? Object.values(await job.getChildrenValues()).sort() : job.data.n; }, async (queue, worker, name) => {
      const flow = new FlowProducer({ connection });
      const events = new QueueEvents(name, { connection });
      await events.waitUntilReady();
      const tree = await flow.add({ name: 'parent', queueName: name, children: Array.from({ length: 20 }, (_, n) => ({ name: 'child', queueName: name, data: { n: n + 10 },
        children: [{ name: 'grandchild', queueName: name, data: { n } }] })) });
      const result = await tree.job.waitUntilFinished(events, 30000);
      equal(result, Array.from({ length: 20 }, (_, n) => n + 10));
      equal(order.length, 41);
      equal(order[40], 'parent');
      await events.close();
      await flow.close();
    });
  },
  async 'repeatable jobs'() {
    let ran = 0;
    await withQueue(async () => { ran++; }, async (queue) => {
      await queue.add('job', {}, { repeat: { every: 300, limit: 5 } });
      equal((await queue.getRepeatableJobs()).length, 1);
      await until(() => ran === 5, 'five runs');
      await sleep(700);
      equal(ran, 5);
    });
  },
  async 'a removed repeatable job'() {
    let ran = 0;
    await withQueue(async () => { ran++; }, async (queue) => {
      await queue.add('job', {}, { repeat: { pattern: '* * * * * *' } });
      await until(() => ran >= 2, 'two runs');
      const [repeatable] = await queue.getRepeatableJobs();
      assert(await queue.removeRepeatableByKey(repeatable.key), 'not removed');
      await sleep(300);
      const before = ran;
      await sleep(2200);
      assert(ran <= before + 1, `${ran - before} more runs`);
    });
  },
  async 'the same id is added once'() {
    await withQueue(null, async (queue) => {
      for (let n = 0; n < 10; n++) await queue.add('job', { n }, { jobId: 'same' });
      equal(await queue.count(), 1);
      equal((await queue.getJob('same')).data.n, 0);
    });
  },
  async 'progress, logs and updates'() {
    const progress = [];
    await withQueue(async (job) => { for (let n = 1; n <= 5; n++) { await job.updateProgress(n * 20); await job.log(`step ${n}`); } await job.updateData({ changed: true }); }, async (queue, worker, name) => {
      const events = new QueueEvents(name, { connection });
      events.on('progress', ({ data }) => progress.push(data));
      await events.waitUntilReady();
      const job = await queue.add('job', {});
      await job.waitUntilFinished(events, 20000);
      await until(() => progress.length === 5, 'the events');
      equal(progress, [20, 40, 60, 80, 100]);
      equal((await queue.getJobLogs(job.id)).logs.length, 5);
      equal((await queue.getJob(job.id)).data, { changed: true });
      await events.close();
    });
  },
  async 'pause and resume'() {
    let ran = 0;
    await withQueue(async () => { ran++; }, async (queue) => {
      await queue.pause();
      await queue.addBulk(Array.from({ length: 20 }, () => ({ name: 'job', data: {} })));
      await sleep(500);
      equal(ran, 0);
      await queue.resume();
      await until(() => ran === 20, 'all ran');
    });
  },
  async 'stalled jobs run again'() {
    const runs = [];
    await withQueue(null, async (queue, _, name) => {
      const stuck = new Worker(name, () => new Promise(() => {}), { connection, lockDuration: 500, skipLockRenewal: true, skipStalledCheck: true });
      stuck.on('error', () => {});
      await queue.add('job', {});
      await until(async () => (await queue.getActiveCount()) === 1, 'active');
      const worker = new Worker(name, async (job) => { runs.push(job.id); }, { connection, stalledInterval: 300 });
      await until(() => runs.length === 1, 'it ran again');
      await worker.close();
      await stuck.close(true);
    });
  },
  async 'clean, drain and obliterate'() {
    await withQueue(async () => {}, async (queue) => {
      await queue.addBulk(Array.from({ length: 50 }, () => ({ name: 'job', data: {} })));
      await until(async () => (await queue.getCompletedCount()) === 50, 'all completed');
      equal((await queue.clean(0, 20, 'completed')).length, 20);
      equal(await queue.getCompletedCount(), 30);
      await queue.pause();
      await queue.addBulk(Array.from({ length: 50 }, () => ({ name: 'job', data: {} })));
      await queue.drain();
      equal(await queue.getWaitingCount(), 0);
      await queue.obliterate({ force: true });
      equal(await queue.getCompletedCount(), 0);
    });
  },
  async 'completed jobs beyond a number are removed'() {
    await withQueue(async () => {}, async (queue) => {
      await queue.addBulk(Array.from({ length: 100 }, () => ({ name: 'job', data: {}, opts: { removeOnComplete: 10 } })));
      await until(async () => (await queue.getWaitingCount()) + (await queue.getActiveCount()) === 0, 'all ran');
      equal(await queue.getCompletedCount(), 10);
    });
  },
});
