// node-redis 4 and ioredis 5: transactions, scripts, pipelines, pub/sub, streams, blocking commands, iterators, RESP replies of each type.
'use strict';
const { createClient, commandOptions, defineScript } = require('redis');
const Redis = require('ioredis');
const { assert, equal, sleep, until, run } = require('./checks');

const connect = async (options = {}) => { const client = createClient({ url: 'redis://127.0.0.1:6379', ...options }); client.on('error', () => {}); await client.connect(); return client; };
const scripts = { addTwice: defineScript({ NUMBER_OF_KEYS: 1, SCRIPT: "redis.call('INCRBY', KEYS[1], ARGV[1]); return redis.call('INCRBY', KEYS[1], ARGV[1])", transformArguments: (key, by) => [key, String(by)] }) };

async function withClient(use, options) {
  const client = await connect(options);
  try { await client.flushDb(); await use(client); } finally { await client.disconnect(); }
}

async function withIo(use) {
  const client = new Redis(6379, '127.0.0.1');
  try { await client.flushdb(); await use(client); } finally { client.disconnect(); }
}

run({
  async 'node-redis transactions'() {
    await withClient(async (client) => {
      equal(await client.multi().set('a', '1').incr('a').get('a').hSet('h', { f: 'v' }).hGetAll('h').exec(), ['OK', 2, '2', 1, { f: 'v' }]);
      await client.set('s', 'text');
      let failed = 0;
      const replies = await client.multi().incr('s').set('b', '2').exec().catch((error) => { failed = error.replies.length; });
      equal([replies, failed, await client.get('b')], [undefined, 2, '2']);
    });
  },
  async 'node-redis optimistic locking by many clients'() {
    await withClient(async (client) => {
      const clients = await Promise.all(Array.from({ length: 6 }, () => connect()));
      await client.set('n', '0');
      await Promise.all(clients.map(async (each) => {
        for (let done = 0; done < 40;) {
          await each.watch('n');
          const value = Number(await each.get('n'));
          try { await each.multi().set('n', String(value + 1)).exec(); done++; } catch (error) { assert(error.constructor.name === 'WatchError', error.message); }
        }
      }));
      equal(await client.get('n'), '240');
      await Promise.all(clients.map((each) => each.disconnect()));
    });
  },
  async 'node-redis scripts'() {
    await withClient(async (client) => {
      for (let n = 1; n <= 50; n++) equal(await client.addTwice('k', 1), 2 * n);
      await client.scriptFlush();
      equal(await client.addTwice('k', 1), 102);
      equal(await client.multi().addTwice('k', 1).get('k').exec(), [104, '104']);
      equal(await client.eval('return {KEYS[1], ARGV[1], 1, false, {2}}', { keys: ['a'], arguments: ['b'] }), ['a', 'b', 1, null, [2]]);
      await client.eval("return redis.call('nosuch')", {}).then(() => assert(false), (error) => assert(/Unknown Redis command/.test(error.message), error.message));
    }, { scripts });
  },
  async 'node-redis functions'() {
    await withClient(async (client) => {
      await client.functionFlush();
      await client.functionLoad("#!lua name=work\nredis.register_function('twice', function(keys, args) return args[1] * 2 end)");
      equal(await client.fCall('twice', { arguments: ['21'] }), 42);
      equal((await client.functionList()).map((each) => each.libraryName), ['work']);
      const dump = await client.functionDump(commandOptions({ returnBuffers: true }));
      await client.functionFlush();
      await client.functionRestore(dump);
      equal(await client.fCall('twice', { arguments: ['4'] }), 8);
      await client.functionDelete('work');
    });
  },
  async 'node-redis publish and subscribe'() {
    await withClient(async (client) => {
      const subscriber = await connect();
      const got = [], matched = [], sharded = [];
      await subscriber.subscribe('news', (message) => got.push(message));
      await subscriber.pSubscribe('n*s', (message, channel) => matched.push(channel));
      await subscriber.sSubscribe('shard', (message) => sharded.push(message));
      for (let n = 0; n < 300; n++) await client.publish('news', String(n));
      equal(await client.sPublish('shard', 'x'), 1);
      await until(() => got.length === 300 && matched.length === 300 && sharded.length === 1, 'all messages');
      equal(got, Array.from({ length: 300 }, (_, n) => String(n)));
      equal([await client.pubSubNumSub('news'), await client.pubSubNumPat()], [{ news: 1 }, 1]);
      await subscriber.unsubscribe('news');
      await subscriber.pUnsubscribe();
      equal(await client.publish('news', 'x'), 0);
      await subscriber.disconnect();
    });
  },
  async 'node-redis keyspace notifications'() {
    await withClient(async (client) => {
      await client.configSet('notify-keyspace-events', 'KEA');
      const subscriber = await connect();
      const got = [];
      await subscriber.pSubscribe('__keyspace@0__:*', (event, channel) => got.push(`${channel.split(':')[1]} ${event}`));
      await client.multi().set('a', '1').incr('a').pExpire('a', 50).exec();
      await client.eval("redis.call('LPUSH', 'l', 'x'); redis.call('LPOP', 'l')", {});
      await until(() => got.includes('a expired') && got.includes('l del'), 'the events');
      equal(got.filter((each) => each[0] === 'a'), ['a set', 'a incrby', 'a expire', 'a expired']);
      equal(got.filter((each) => each[0] === 'l'), ['l lpush', 'l lpop', 'l del']);
      await client.configSet('notify-keyspace-events', '');
      await subscriber.disconnect();
    });
  },
  async 'node-redis streams with groups'() {
    await withClient(async (client) => {
      await client.xGroupCreate('s', 'g', '0', { MKSTREAM: true });
      for (let n = 0; n < 100; n++) await client.xAdd('s', '*', { n: String(n) });
      const seen = [];
      for (let n = 0; n < 10; n++) {
        const [{ messages }] = await client.xReadGroup('g', `c${n % 3}`, [{ key: 's', id: '>' }], { COUNT: 10 });
        for (const { id, message } of messages) { seen.push(message.n); await client.xAck('s', 'g', id); }
      }
      equal(seen.length, 100);
      equal((await client.xPending('s', 'g')).pending, 0);
      equal(await client.xReadGroup('g', 'c', [{ key: 's', id: '>' }], { BLOCK: 50 }), null);
    });
  },
  async 'node-redis blocking pops and iterators'() {
    await withClient(async (client) => {
      const isolated = client.blPop(commandOptions({ isolated: true }), 'list', 10);
      await sleep(50);
      await client.rPush('list', 'x');
      equal(await isolated, { key: 'list', element: 'x' });
      const wanted = Array.from({ length: 500 }, (_, n) => `member:${n}`);
      await client.sAdd('set', wanted);
      await client.zAdd('zset', wanted.map((value, score) => ({ value, score })));
      await Promise.all(wanted.map((each) => client.set(each, '1')));
      const found = { keys: new Set(), members: new Set(), scores: new Set() };
      for await (const key of client.scanIterator({ MATCH: 'member:*', COUNT: 30 })) found.keys.add(key);
      for await (const member of client.sScanIterator('set')) found.members.add(member);
      for await (const { value } of client.zScanIterator('zset')) found.scores.add(value);
      equal([found.keys.size, found.members.size, found.scores.size], [500, 500, 500]);
    });
  },
  async 'ioredis pipelines and transactions'() {
    await withIo(async (redis) => {
      const pipeline = redis.pipeline();
      for (let n = 0; n < 1000; n++) pipeline.set(`k${n}`, n).get(`k${n}`);
      const replies = await pipeline.exec();
      assert(replies.length === 2000 && replies.every(([error, reply], n) => !error && (n % 2 ? reply === String((n - 1) / 2) : reply === 'OK')), 'a wrong reply');
      equal(await redis.multi().set('a', 1).incr('a').exec(), [[null, 'OK'], [null, 2]]);
      equal(await redis.multi({ pipeline: false }), 'OK');
      equal([await redis.set('b', 1), await redis.exec()], ['QUEUED', [[null, 'OK']]]);
      await redis.multi().set('a').exec().then(() => assert(false), (error) => assert(/EXECABORT/.test(error.message), error.message));
    });
  },
  async 'ioredis locks by Lua with many clients'() {
    await withIo(async (redis) => {
      const clients = Array.from({ length: 6 }, () => new Redis(6379, '127.0.0.1'));
      for (const each of clients) each.defineCommand('unlock', { numberOfKeys: 1, lua: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end" });
      let inside = 0, total = 0;
      await Promise.all(clients.map(async (each, index) => {
        for (let done = 0; done < 25;) {
          if (await each.set('lock', String(index), 'PX', 5000, 'NX') !== 'OK') { await sleep(1); continue; }
          assert(++inside === 1, 'two have the lock');
          total++;
          await sleep(1);
          inside--;
          equal(await each.unlock('lock', String(index)), 1);
          done++;
        }
      }));
      equal(total, 150);
      clients.forEach((each) => each.disconnect());
    });
  },
  async 'ioredis a sliding window in a script'() {
    await withIo(async (redis) => {
      redis.defineCommand('allow', { numberOfKeys: 1, lua: "local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000); redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - ARGV[1]); " +
        "if redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[2]) then redis.call('ZADD', KEYS[1], now, now .. ':' .. ARGV[3]); redis.call('PEXPIRE', KEYS[1], ARGV[1]); return 1 end; return 0" });
      const allowed = await Promise.all(Array.from({ length: 200 }, (_, n) => redis.allow('window', 2000, 50, n)));
      equal(allowed.reduce((sum, each) => sum + each, 0), 50);
      await sleep(2200);
      equal(await redis.allow('window', 2000, 50, 'x'), 1);
    });
  },
});
