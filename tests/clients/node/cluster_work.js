// Clusters with ioredis 5 and node-redis 4: keys of all slots, pipelines, scripts, streams, pub/sub, replicas; a slot that moves and a failover meanwhile.
'use strict';
const { createCluster } = require('redis');
const Redis = require('ioredis');
const { assert, equal, sleep, until, run } = require('./checks');

const PORT = 16379, COUNT = 600;
const names = (prefix) => Array.from({ length: COUNT }, (_, number) => `${prefix}:${number}`);

async function withIo(use, options = {}) {
  const cluster = new Redis.Cluster([{ host: '127.0.0.1', port: PORT }], options);
  cluster.on('error', () => {});
  try { await Promise.all((await ready(cluster)).nodes('master').map((node) => node.flushdb())); await use(cluster); } finally { cluster.disconnect(); }
}

async function ready(cluster) {
  await until(() => cluster.status === 'ready', 'the cluster is connected');
  return cluster;
}

async function withCluster(use, options = {}) {
  const cluster = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${PORT}` }], ...options });
  cluster.on('error', () => {});
  await cluster.connect();
  try { await use(cluster); } finally { await cluster.disconnect(); }
}

// Calls of one node, by a connection of its own.
async function withNode(address, use) {
  const [host, port] = address.split(':');
  const node = new Redis(Number(port), host);
  try { return await use(node); } finally { node.disconnect(); }
}

// [{ id, address, flags, primary, slots }], as a node sees them.
const view = () => withNode(`127.0.0.1:${PORT}`, async (node) => (await node.cluster('NODES')).trim().split('\n').map((line) => {
  const [id, address, flags, primary, , , , , ...slots] = line.split(' ');
  return { id, address: address.split('@')[0], flags: flags.split(','), primary, slots };
}));

// Counters of one client, one more each round, while `change` runs: none is lost, and none is counted twice.
async function count(incr, get, keys, change) {
  let rounds = 0, ended = false;
  const work = (async () => {
    for (; !ended; rounds++) await Promise.all(keys.map((key) => incr(key)));
  })();
  await until(() => rounds > 2, 'the writers write');
  await change();
  const after = rounds;
  await until(() => rounds > after + 2, 'the writers go on');
  ended = true;
  await work;
  equal(await Promise.all(keys.map(async (key) => Number(await get(key)))), keys.map(() => rounds));
}

// Moves a slot with its keys to another primary and back, as redis-cli does it.
async function moveSlot(slot, key) {
  const owns = (node) => node.slots.some((range) => { const [first, last] = range.split('-').map(Number); return first <= slot && slot <= (last || first); });
  for (let turn = 0; turn < 2; turn++) {
    const nodes = (await view()).filter((node) => node.slots.length > 0);
    const source = nodes.find(owns), target = nodes.find((node) => node !== source);
    await withNode(source.address, (from) => withNode(target.address, async (to) => {
      await to.cluster('SETSLOT', slot, 'IMPORTING', source.id);
      await from.cluster('SETSLOT', slot, 'MIGRATING', target.id);
      await sleep(100);
      for (;;) {
        const keys = await from.cluster('GETKEYSINSLOT', slot, 10);
        if (keys.length === 0) break;
        await from.call('MIGRATE', '127.0.0.1', target.address.split(':')[1], '', 0, 5000, 'KEYS', ...keys);
      }
      equal(await from.exists(key).catch((error) => error.message.split(' ')[0]), 'ASK');
      await to.cluster('SETSLOT', slot, 'NODE', target.id);
      await from.cluster('SETSLOT', slot, 'NODE', target.id);
    }));
    await until(async () => owns((await view()).find((node) => node.id === target.id)), 'the first node knows the new owner');
  }
}

// A replica takes over, without a loss.
async function failOver() {
  const replica = (await view()).find((node) => node.flags.includes('slave') && !node.flags.includes('fail'));
  await withNode(replica.address, async (node) => {
    await until(async () => (await node.info('replication')).includes('master_link_status:up'), 'the replica is in sync');
    await node.cluster('FAILOVER');
    await until(async () => (await node.role())[0] === 'master', 'it takes over');
  });
}

run({
  async 'ioredis keys of all slots'() {
    await withIo(async (cluster) => {
      const keys = names('io');
      await Promise.all(keys.map((key) => cluster.set(key, `value of ${key}`)));
      equal(await Promise.all(keys.map((key) => cluster.get(key))), keys.map((key) => `value of ${key}`));
      equal((await Promise.all(cluster.nodes('master').map((node) => node.dbsize()))).reduce((sum, size) => sum + size), COUNT);
      const found = new Set();
      for (const node of cluster.nodes('master')) for await (const some of node.scanStream({ match: 'io:*', count: 100 })) some.forEach((key) => found.add(key));
      equal(found.size, COUNT);
    });
  },
  async 'ioredis reads from replicas'() {
    await withIo(async (cluster) => {
      const keys = names('replica');
      await Promise.all(keys.map((key) => cluster.set(key, key)));
      await Promise.all(cluster.nodes('master').map((node) => node.wait(1, 20000)));
      const reader = await ready(new Redis.Cluster([{ host: '127.0.0.1', port: PORT }], { scaleReads: 'slave' }));
      try { equal(await Promise.all(keys.map((key) => reader.get(key))), keys); } finally { reader.disconnect(); }
    });
  },
  async 'ioredis pipelines, transactions and scripts of a slot'() {
    await withIo(async (cluster) => {
      cluster.defineCommand('addBoth', { numberOfKeys: 2, lua: "return {redis.call('INCRBY', KEYS[1], ARGV[1]), redis.call('INCRBY', KEYS[2], ARGV[1])}" });
      equal((await cluster.pipeline().set('{a}1', '1').incr('{a}1').mget('{a}1', '{a}2').exec()).map(([, reply]) => reply), ['OK', 2, ['2', null]]);
      equal((await cluster.multi().lpush('{a}l', 'x').llen('{a}l').exec()).map(([, reply]) => reply), [1, 1]);
      equal([await cluster.addBoth('{a}n', '{a}m', 3), await cluster.addBoth('{b}n', '{b}m', 4)], [[3, 3], [4, 4]]);
      equal(await cluster.mget('a', 'b').catch((error) => error.message.split(' ')[0]), 'CROSSSLOT');
    });
  },
  async 'ioredis messages and blocked clients'() {
    await withIo(async (cluster) => {
      const other = await ready(new Redis.Cluster([{ host: '127.0.0.1', port: PORT }]));
      const heard = [];
      try {
        other.on('message', (channel, text) => heard.push([channel, text]));
        await other.subscribe('news');
        await Promise.all(names('n').slice(0, 20).map((key) => cluster.publish('news', key)));
        await until(() => heard.length === 20, 'all nodes pass messages on');
        const popped = cluster.duplicate().blpop('queue', 20);
        await sleep(50);
        await cluster.rpush('queue', 'item');
        equal(await popped, ['queue', 'item']);
      } finally { other.disconnect(); }
    });
  },
  async 'ioredis counters while a slot moves'() {
    await withIo(async (cluster) => {
      const keys = names('{moved}').slice(0, 40);
      await count((key) => cluster.incr(key), (key) => cluster.get(key), keys, async () => moveSlot(await cluster.cluster('KEYSLOT', '{moved}'), '{moved}none'));
    });
  },
  async 'ioredis counters while a replica takes over'() {
    await withIo(async (cluster) => {
      await count((key) => cluster.incr(key), (key) => cluster.get(key), names('failover').slice(0, 60), failOver);
    });
  },
  async 'node-redis keys of all slots'() {
    await withCluster(async (cluster) => {
      const keys = names('node');
      await Promise.all(keys.map((key) => cluster.hSet(key, { name: key, more: 'x'.repeat(100) })));
      equal(await Promise.all(keys.map((key) => cluster.hGet(key, 'name'))), keys);
      equal(await cluster.multi().set('{n}a', '1').incr('{n}a').get('{n}a').exec(), ['OK', 2, '2']);
      equal(await cluster.eval('return {KEYS[1], ARGV[1]}', { keys: ['some'], arguments: ['word'] }), ['some', 'word']);
    });
  },
  async 'node-redis messages of shards'() {
    await withCluster(async (cluster) => {
      const heard = [];
      await cluster.sSubscribe('{s}hard', (text) => heard.push(text));
      for (let number = 0; number < 20; number++) await cluster.sPublish('{s}hard', String(number));
      await until(() => heard.length === 20, 'all are received');
      equal(heard, Array.from({ length: 20 }, (_, number) => String(number)));
      await cluster.sUnsubscribe('{s}hard');
    });
  },
  async 'node-redis streams'() {
    await withCluster(async (cluster) => {
      await cluster.del('stream');
      await cluster.xGroupCreate('stream', 'group', '0', { MKSTREAM: true });
      await Promise.all(Array.from({ length: 50 }, (_, number) => cluster.xAdd('stream', '*', { number: String(number) })));
      const [{ messages }] = await cluster.xReadGroup('group', 'one', { key: 'stream', id: '>' }, { COUNT: 100 });
      equal([messages.length, await cluster.xAck('stream', 'group', messages.map((each) => each.id))], [50, 50]);
    });
  },
  async 'node-redis counters while a slot moves'() {
    await withCluster(async (cluster) => {
      const keys = names('{carried}').slice(0, 40);
      await Promise.all(keys.map((key) => cluster.del(key)));
      const slot = await withNode(`127.0.0.1:${PORT}`, (node) => node.cluster('KEYSLOT', '{carried}'));
      await count((key) => cluster.incr(key), (key) => cluster.get(key), keys, () => moveSlot(slot, '{carried}none'));
    });
  },
});
