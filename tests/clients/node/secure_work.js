// ioredis 5, node-redis 4 and BullMQ over TLS as users with few permissions; connections that come back after their user was removed.
'use strict';
const fs = require('fs');
const path = require('path');
const { createClient } = require('redis');
const { Queue, Worker } = require('bullmq');
const Redis = require('ioredis');
const { assert, equal, sleep, until, run } = require('./checks');

const port = Number(process.env.KELVIN_TLS_PORT);
const read = (name) => fs.readFileSync(path.join(process.env.KELVIN_TLS, name));
const tls = { ca: read('ca.crt'), checkServerIdentity: () => undefined };
const withCertificate = { ...tls, cert: read('client.crt'), key: read('client.key') };
const rules = ['reset', 'on', '>secret', '~app:*', '&app:*', '+@read', '+@write', '-@dangerous', '+@connection', '+info'];
const admin = new Redis(6379, '127.0.0.1');
const setUser = (name, words = rules) => admin.call('ACL', 'SETUSER', name, ...words);

function connect(username, more = {}) {
  const client = new Redis({ host: '127.0.0.1', port, username, password: 'secret', tls, retryStrategy: () => 20, ...more });
  client.on('error', () => {});
  return client;
}

const refused = (promise, pattern) => promise.then(() => assert(false, 'not refused'), (error) => assert(pattern.test(error.message), error.message));

run({
  async 'ioredis permissions'() {
    await setUser('app');
    for (const each of [tls, withCertificate]) {
      const client = connect('app', { tls: each });
      equal(await client.set('app:a', '1'), 'OK');
      equal(await client.pipeline().incr('app:a').get('app:a').get('b').exec().then((all) => all.map(([error, reply]) => error ? error.message.slice(0, 6) : reply)), [2, '2', 'NOPERM']);
      await refused(client.flushall(), /NOPERM/);
      await refused(client.multi().get('app:a').exec(), /NOPERM/);
      client.disconnect();
    }
  },
  async 'ioredis many connections'() {
    const clients = Array.from({ length: 20 }, () => connect('app', { enableAutoPipelining: true }));
    await clients[0].del('app:n');
    await Promise.all(clients.map(async (client, number) => {
      for (let turn = 0; turn < 30; turn++) {
        const value = `${number}:${turn};`.repeat(300);
        await Promise.all(Array.from({ length: 20 }, (_, i) => client.set(`app:${number}:${i}`, value)));
        await client.incrby('app:n', 20);
        const found = await Promise.all(Array.from({ length: 20 }, (_, i) => client.get(`app:${number}:${i}`)));
        assert(found.every((each) => each === value), 'another value');
      }
    }));
    equal(await clients[0].get('app:n'), '12000');
    clients.forEach((client) => client.disconnect());
  },
  async 'ioredis comes back after its user'() {
    await setUser('leaving');
    const client = connect('leaving');
    equal(await client.set('app:l', '1'), 'OK');
    let ends = 0;
    client.on('close', () => ends++);
    equal(await admin.call('ACL', 'DELUSER', 'leaving'), 1);
    await until(() => ends > 2, 'it tries again');
    await setUser('leaving');
    await until(() => client.status === 'ready' && client.get('app:l').then((value) => value === '1', () => false), 'it is back');
    client.disconnect();
  },
  async 'node-redis over TLS'() {
    const client = createClient({ username: 'app', password: 'secret', socket: { host: '127.0.0.1', port, tls: true, ...withCertificate } });
    client.on('error', () => {});
    await client.connect();
    await client.hSet('app:h', { f: 'v'.repeat(50000) });
    equal((await client.hGetAll('app:h')).f.length, 50000);
    await refused(client.get('other'), /NOPERM/);
    await client.disconnect();
  },
  async 'BullMQ over TLS'() {
    await setUser('bull', ['reset', 'on', '>secret', '~bull:*', '+@all', '-@admin', '-@dangerous', '+info']);
    const connection = { host: '127.0.0.1', port, username: 'bull', password: 'secret', tls, maxRetriesPerRequest: null };
    const queue = new Queue('secure', { connection });
    const done = new Set();
    const workers = [1, 2, 3].map(() => new Worker('secure', async (job) => { done.add(job.id); }, { connection, concurrency: 4, stalledInterval: 1000, lockDuration: 2000, maxStalledCount: 9 }));
    [queue, ...workers].forEach((each) => each.on('error', () => {}));
    await queue.addBulk(Array.from({ length: 300 }, (_, n) => ({ name: 'job', data: { n }, opts: n % 3 ? {} : { delay: 200 } })));
    await until(() => done.size >= 150, 'half of the jobs');
    await admin.call('CLIENT', 'KILL', 'USER', 'bull');         // a job whose reply is lost is run again when it counts as stalled
    for (let n = 0; n < 100; n++) await queue.add('late', { n }).catch(() => queue.add('late', { n }));
    await until(() => done.size >= 400, 'all jobs').catch(async (error) => { throw new Error(`${error.message}: ${done.size} ${JSON.stringify(await queue.getJobCounts())}`); });
    await sleep(100);
    await Promise.all(workers.map((each) => each.close()));
    await queue.close();
  },
});
