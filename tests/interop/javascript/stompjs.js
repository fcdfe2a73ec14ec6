// @stomp/stompjs, the STOMP client of browsers, over WebSocket in Node: node stompjs.js URL NAME...
'use strict';

const { Client: Stomp, Versions } = require('@stomp/stompjs');
const { expect, run, sleep, within } = require('./scenarios');

Object.assign(global, { WebSocket: require('ws') });
const url = process.argv[2];

class Client {
  constructor(options = {}) {
    this.errors = [];
    this.stomp = new Stomp({
      brokerURL: url,
      reconnectDelay: 0,
      onStompError: (frame) => this.errors.push(frame.headers.message),
      ...options,
    });
  }

  connect() {
    return within(
      new Promise((resolve) => {
        this.stomp.onConnect = resolve;
        this.stomp.activate();
      }),
      'connecting',
    );
  }

  send(destination, body, headers = {}) {
    const receipt = `r${Math.random()}`;
    const received = within(new Promise((resolve) => this.stomp.watchForReceipt(receipt, resolve)), 'a receipt');
    const content = typeof body === 'string' ? { body } : { binaryBody: body };
    this.stomp.publish({ destination, headers: { receipt, persistent: 'true', ...headers }, ...content });
    return received;
  }

  subscribe(destination, headers = {}) {
    const inbox = [];
    const waiting = [];
    const subscription = this.stomp.subscribe(
      destination,
      (message) => (waiting.length ? waiting.shift()(message) : inbox.push(message)),
      headers,
    );
    subscription.next = () =>
      inbox.length ? Promise.resolve(inbox.shift()) : within(new Promise((resolve) => waiting.push(resolve)), 'message');
    return subscription;
  }

  close() {
    this.stomp.deactivate({ force: true });
  }
}

const queue = (name) => `/queue/stompjs.${name}`;

async function sendAndReceive(client, name, options = {}) {
  client.stomp.configure(options);
  await client.connect();
  const bodies = ['grüße 👋', 'b'.repeat(100000), ''];
  for (const body of bodies) await client.send(queue(name), body);
  const subscription = client.subscribe(queue(name));
  for (const body of bodies) expect(body, (await subscription.next()).body);
}

const scenarios = {
  async version_12(client, name) {
    await sendAndReceive(client, name, { stompVersions: new Versions([Versions.V1_2]) });
    expect('1.2', client.stomp.connectedVersion);
  },

  async version_11(client, name) {
    await sendAndReceive(client, name, { stompVersions: new Versions([Versions.V1_1]) });
    expect('1.1', client.stomp.connectedVersion);
  },

  async version_10(client, name) {
    await sendAndReceive(client, name, { stompVersions: new Versions([Versions.V1_0]) });
    expect('1.0', client.stomp.connectedVersion);
  },

  async frames_in_many_messages(client, name) {
    await sendAndReceive(client, name, { splitLargeFrames: true, maxWebSocketChunkSize: 1000 });
  },

  async frames_in_binary_messages(client, name) {
    await sendAndReceive(client, name, { forceBinaryWSFrames: true });
  },

  async octets_survive(client, name) {
    await client.connect();
    const body = Uint8Array.from([0, 255, 10, 0, 128]);
    await client.send(queue(name), body, { 'content-type': 'application/octet-stream' });
    const message = await client.subscribe(queue(name)).next();
    expect([...body], [...message.binaryBody]);
  },

  async acknowledge_and_return(client, name) {
    await client.connect();
    for (const body of ['a', 'b']) await client.send(queue(name), body);
    const subscription = client.subscribe(queue(name), { ack: 'client-individual' });
    (await subscription.next()).ack();
    (await subscription.next()).nack();
    const again = await subscription.next();
    expect(['b', 'true'], [again.body, again.headers.redelivered]);
    again.ack();
  },

  async transaction(client, name) {
    await client.connect();
    const subscription = client.subscribe(queue(name));
    const aborted = client.stomp.begin();
    await client.send(queue(name), 'aborted', { transaction: aborted.id });
    aborted.abort();
    const committed = client.stomp.begin();
    await client.send(queue(name), 'committed', { transaction: committed.id });
    committed.commit();
    expect('committed', (await subscription.next()).body);
  },

  async topic_to_all(client, name) {
    await client.connect();
    const other = new Client();
    await other.connect();
    const topic = `/topic/stompjs.${name}`;
    const subscriptions = [client, other].map((one) => one.subscribe(topic, { receipt: 'subscribed' }));
    await Promise.all(
      [client, other].map((one) =>
        within(new Promise((resolve) => one.stomp.watchForReceipt('subscribed', resolve)), 'a receipt')),
    );
    for (let n = 0; n < 100; n++) client.stomp.publish({ destination: topic, body: String(n) });
    for (const subscription of subscriptions) {
      for (let n = 0; n < 100; n++) expect(String(n), (await subscription.next()).body);
    }
    other.close();
  },

  async heart_beats_keep_the_connection(client) {
    let lost = 0;
    client.stomp.configure({ heartbeatIncoming: 200, heartbeatOutgoing: 200, onHeartbeatLost: () => lost++ });
    await client.connect();
    await sleep(2000);
    expect([0, true], [lost, client.stomp.connected]);
  },

  async error_frame(client) {
    await client.connect();
    const closed = within(new Promise((resolve) => (client.stomp.onWebSocketClose = resolve)), 'the end');
    client.stomp.publish({ destination: '/nonsense/x', body: '' });
    await closed;
    expect(1, client.errors.length);
  },
};

run(scenarios, () => new Client());
