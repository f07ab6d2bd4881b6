// What the workloads share: each check prints `ok NAME` or `FAIL NAME: reason`.
'use strict';

function assert(fine, text) {
  if (!fine) throw new Error(text || 'assertion failed');
}

function equal(found, wanted) {
  const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
  assert(a === b, `${a} instead of ${b}`.slice(0, 300));
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(condition, what, ms = 30000) {
  const end = Date.now() + ms;
  while (!(await condition())) {
    assert(Date.now() < end, `timeout: ${what}`);
    await sleep(20);
  }
}

async function run(checks) {
  for (const [name, check] of Object.entries(checks)) {
    let timer;
    try {
      await Promise.race([check(), new Promise((_, reject) => { timer = setTimeout(() => reject(new Error('timeout of 60 s')), 60000); })]);
      console.log(`ok ${name}`);
    } catch (error) {
      console.log(`FAIL ${name}: ${String(error && error.message || error).replace(/\s+/g, ' ').slice(0, 300)}`);
    }
    clearTimeout(timer);
  }
  console.log('ok (end)');
  process.exit(0);
}

process.on('unhandledRejection', (error) => console.log('unhandled', error && error.message));
module.exports = { assert, equal, sleep, until, run };
