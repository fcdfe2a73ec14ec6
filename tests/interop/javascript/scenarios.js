// What the programs with scenarios share: limits, expectations, and a run that prints "ok NAME" or "failed NAME: why".
'use strict';

const LIMIT_MS = 15000;

function expect(expected, seen) {
  const one = JSON.stringify(expected);
  const other = JSON.stringify(seen);
  if (one !== other) throw new Error(`expected ${one}, saw ${other}`);
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function within(promise, what) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took too long`)), LIMIT_MS);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}

// Runs the scenarios named on the command line after the address, or all; newClient makes each a client of its own.
async function run(scenarios, newClient) {
  const names = process.argv.length > 3 ? process.argv.slice(3) : Object.keys(scenarios);
  for (const name of names) {
    const client = newClient();
    try {
      await scenarios[name](client, name);
      console.log(`ok ${name}`);
    } catch (error) {
      console.log(`failed ${name}: ${(error.stack || error).split('\n').slice(0, 2).join(' ')}`);
    }
    client.close();
  }
  process.exit(0);
}

module.exports = { expect, sleep, within, run };
