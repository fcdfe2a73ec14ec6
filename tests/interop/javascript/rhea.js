// rhea, the AMQP 1.0 client in JavaScript: node rhea.js PORT NAME...
'use strict';

const rhea = require('rhea');
const { expect, run, sleep, within } = require('./scenarios');

const port = Number(process.argv[2]);
const QUIET_MS = 400;

const once = (emitter, event) =>
  within(new Promise((resolve) => emitter.once(event, resolve)), event);

class Client {
  constructor(port, options = {}) {
    this.container = rhea.create_container();
    this.connection = this.container.connect({ host: '127.0.0.1', port, reconnect: false, ...options });
    this.connection.on('connection_error', () => {});
    this.connection.on('disconnected', () => {});
  }

  async sender(address, options = {}) {
    const sender = this.connection.open_sender({ target: { address }, ...options });
    await once(sender, 'sendable');
    return sender;
  }

  async send(sender, ...bodies) {
    for (const body of bodies) {
      const accepted = once(sender, 'accepted');
      sender.send(body !== null && typeof body === 'object' && 'body' in body ? body : { body, durable: true });
      await accepted;
    }
  }

  receiver(source, options = {}) {
    const inbox = [];
    const waiting = [];
    const receiver = this.connection.open_receiver({ source, ...options });
    receiver.on('message', (context) => {
      const next = waiting.shift();
      if (next) next(context);
      else inbox.push(context);
    });
    receiver.next = () =>
      inbox.length ? Promise.resolve(inbox.shift()) : within(new Promise((resolve) => waiting.push(resolve)), 'message');
    receiver.is_quiet = async () => {
      await sleep(QUIET_MS);
      return inbox.length === 0;
    };
    return receiver;
  }

  close() {
    this.connection.close();
  }
}

const selector = (text) => ({ 'jms-selector': rhea.types.wrap_described(text, 0x468c00000004) });
const queue = (name) => `rhea.${name}`;
// A source of the scenario's own dead letters, which it sends with its name as the subject: others share the gateway.
const deadLetters = (name) => ({ address: 'ActiveMQ.DLQ', filter: selector(`JMSType = '${name}'`) });

const scenarios = {
  async queue_in_order(client, name) {
    const sender = await client.sender(queue(name));
    const bodies = Array.from({ length: 50 }, (_, number) => `m${number}`);
    await client.send(sender, ...bodies);
    const receiver = client.receiver(queue(name));
    for (const body of bodies) expect(body, (await receiver.next()).message.body);
    expect(true, await receiver.is_quiet());
  },

  async topic_to_all(client, name) {
    const address = `topic://rhea.${name}`;
    const other = new Client(port);
    const receivers = [client.receiver(address), other.receiver(address)];
    await Promise.all(receivers.map((receiver) => once(receiver, 'receiver_open')));
    const sender = await client.sender(address);
    await client.send(sender, 'a', 'b');
    for (const receiver of receivers) {
      expect('a', (await receiver.next()).message.body);
      expect('b', (await receiver.next()).message.body);
    }
    other.close();
  },

  async properties_survive(client, name) {
    const sender = await client.sender(queue(name));
    const sent = {
      body: { list: [1, 'two', true], text: 'x' },
      message_id: 'id-1',
      correlation_id: 'c-1',
      subject: 'order',
      reply_to: 'answers',
      content_type: 'application/x-thing',
      group_id: 'g',
      durable: true,
      priority: 7,
      application_properties: { colour: 'red', size: 5, yes: true },
      message_annotations: { 'x-opt-mine': 'kept' },
    };
    await client.send(sender, sent);
    const { message } = await client.receiver(queue(name)).next();
    for (const field of Object.keys(sent)) expect(sent[field], message[field]);
  },

  async selectors(client, name) {
    const sender = await client.sender(queue(name));
    for (let n = 0; n < 4; n++) {
      await client.send(sender, { body: `m${n}`, application_properties: { n, colour: n % 2 ? 'blue' : 'red' } });
    }
    const receiver = client.receiver({ address: queue(name), filter: selector("colour = 'blue' AND n > 1") });
    expect('m3', (await receiver.next()).message.body);
    expect(true, await receiver.is_quiet());
  },

  async a_broken_selector_is_refused(client, name) {
    const receiver = client.receiver({ address: queue(name), filter: selector('n ==== 1') });
    const context = await once(receiver, 'receiver_error');
    expect('amqp:invalid-field', context.receiver.error.condition);
  },

  async outcomes(client, name) {
    const sender = await client.sender(queue(name));
    await client.send(sender, 'released', 'modified', { body: 'rejected', durable: true, subject: name });
    const receiver = client.receiver(queue(name), { autoaccept: false });
    const released = await receiver.next();
    expect(0, released.message.delivery_count || 0);
    released.delivery.release();
    await sleep(50); // rhea joins dispositions of one turn, and takes the state of the first for all of them
    const modified = await receiver.next();
    modified.delivery.release({ delivery_failed: true, undeliverable_here: false });
    await sleep(50);
    const rejected = await receiver.next();
    rejected.delivery.reject({ condition: 'app:bad', description: 'not wanted' });
    const back = await receiver.next();
    expect(['released', false], [back.message.body, back.message.first_acquirer]);
    back.delivery.accept();
    const again = await receiver.next();
    expect(['modified', 1], [again.message.body, again.message.delivery_count]);
    again.delivery.accept();
    const dead = client.receiver(deadLetters(name));
    expect('rejected', (await dead.next()).message.body);
  },

  async request_reply(client, name) {
    const server = new Client(port);
    const requests = server.receiver(queue(name));
    const answers = server.connection.open_sender({ target: {} });
    requests.on('message', ({ message }) => {
      answers.send({ to: message.reply_to, correlation_id: message.correlation_id, body: `answer to ${message.body}` });
    });
    const replies = client.receiver({ dynamic: true });
    const opened = await once(replies, 'receiver_open');
    const reply_to = opened.receiver.source.address;
    const sender = await client.sender(queue(name));
    for (let n = 0; n < 3; n++) {
      await client.send(sender, { body: `r${n}`, reply_to, correlation_id: `c${n}` });
      const { message } = await replies.next();
      expect([`answer to r${n}`, `c${n}`], [message.body, message.correlation_id]);
    }
    server.close();
  },

  async durable_subscription(client, name) {
    const source = { address: `topic://rhea.${name}`, durable: 2, expiry_policy: 'never' };
    const first = new Client(port);
    first.container.id = 'rhea-durable';
    const own = first.connection.options;
    own.container_id = 'rhea-durable';
    const receiver = first.receiver(source, { name: 'sub' });
    await once(receiver, 'receiver_open');
    receiver.detach();
    await once(receiver, 'receiver_close').catch(() => {});
    const sender = await client.sender(source.address);
    await client.send(sender, 'kept');
    const resumed = first.receiver(source, { name: 'sub' });
    expect('kept', (await resumed.next()).message.body);
    resumed.close();
    await once(resumed, 'receiver_close');
    first.close();
  },

  async browser(client, name) {
    const sender = await client.sender(queue(name));
    await client.send(sender, 'a', 'b');
    const browser = client.receiver({ address: queue(name), distribution_mode: 'copy' });
    expect('a', (await browser.next()).message.body);
    expect('b', (await browser.next()).message.body);
    const receiver = client.receiver(queue(name));
    expect('a', (await receiver.next()).message.body);
    expect('b', (await receiver.next()).message.body);
  },

  async credit_of_one(client, name) {
    const sender = await client.sender(queue(name));
    await client.send(sender, 'a', 'b', 'c');
    const receiver = client.receiver(queue(name), { credit_window: 0 });
    for (const body of ['a', 'b', 'c']) {
      expect(true, await receiver.is_quiet());
      receiver.add_credit(1);
      expect(body, (await receiver.next()).message.body);
    }
  },

  async drain(client, name) {
    const sender = await client.sender(queue(name));
    await client.send(sender, 'only');
    const receiver = client.receiver(queue(name), { credit_window: 0 });
    receiver.add_credit(10);
    expect('only', (await receiver.next()).message.body);
    const drained = once(receiver, 'receiver_drained');
    receiver.drain_credit();
    await drained;
    await client.send(sender, 'later');
    expect(true, await receiver.is_quiet());
    receiver.add_credit(1);
    expect('later', (await receiver.next()).message.body);
  },

  async large_messages(client, name) {
    const sender = await client.sender(queue(name));
    const body = Buffer.alloc(1000000, 7);
    await client.send(sender, { body: rhea.message.data_section(body), durable: true });
    const { message } = await client.receiver(queue(name)).next();
    expect(true, body.equals(message.body.content));
  },

  async delayed_delivery(client, name) {
    const sender = await client.sender(queue(name));
    const sent = Date.now();
    const annotations = { 'x-opt-delivery-time': rhea.types.wrap_long(sent + 600) };
    await client.send(sender, { body: 'at', message_annotations: annotations });
    await client.send(sender, { body: 'after', message_annotations: { 'x-opt-delivery-delay': 300 } });
    await client.send(sender, { body: 'property', application_properties: { AMQ_SCHEDULED_DELAY: 450 } });
    await client.send(sender, 'now');
    const receiver = client.receiver(queue(name));
    // On a slow machine one can be due before the next is sent.
    const delays = { now: 0, after: 299, property: 449, at: 600 };
    while (Object.keys(delays).length) {
      const { body } = (await receiver.next()).message;
      expect(true, Date.now() - sent >= delays[body]);
      delete delays[body];
    }
  },

  async redelivery_to_dead_letter(client, name) {
    const sender = await client.sender(queue(name));
    await client.send(sender, { body: 'poison', durable: true, subject: name });
    const receiver = client.receiver(queue(name), { autoaccept: false });
    for (let count = 0; count < 7; count++) {
      const { message, delivery } = await receiver.next();
      expect(count, message.delivery_count || 0);
      delivery.release({ delivery_failed: true, undeliverable_here: false });
    }
    const dead = client.receiver(deadLetters(name));
    expect('poison', (await dead.next()).message.body);
  },

  async undeliverable_here_is_for_others(client, name) {
    const sender = await client.sender(queue(name));
    await client.send(sender, 'a', 'b');
    const receiver = client.receiver(queue(name), { autoaccept: false });
    const first = await receiver.next();
    await receiver.next();
    first.delivery.release({ delivery_failed: false, undeliverable_here: true });
    expect(true, await receiver.is_quiet());
    const other = new Client(port);
    expect('a', (await other.receiver(queue(name)).next()).message.body);
    other.close();
  },

  async shared_subscription(client, name) {
    const source = { address: `topic://rhea.${name}`, capabilities: ['topic', 'shared', 'global'] };
    const other = new Client(port);
    const receivers = [
      client.receiver(source, { name: 'shared|1', credit_window: 0 }),
      other.receiver(source, { name: 'shared|2', credit_window: 0 }),
    ];
    await Promise.all(receivers.map((receiver) => once(receiver, 'receiver_open')));
    const sender = await client.sender(source.address);
    await client.send(sender, 'a', 'b', 'c', 'd');
    const seen = [];
    for (const receiver of receivers) {
      receiver.add_credit(2);
      for (let n = 0; n < 2; n++) seen.push((await receiver.next()).message.body);
    }
    expect(['a', 'b', 'c', 'd'], seen.sort());
    other.close();
  },

  async prefetch_thousand(client, name) {
    const sender = await client.sender(queue(name));
    await client.send(sender, 'a', 'b', 'c');
    const first = client.receiver(queue(name), { credit_window: 1000, autoaccept: false });
    expect('a', (await first.next()).message.body);
    const other = new Client(port);
    expect(true, await other.receiver(queue(name)).is_quiet());
    expect('b', (await first.next()).message.body);
    expect('c', (await first.next()).message.body);
    other.close();
  },

  // Prints when the first message is safe; the test kills and restarts the gateway then.
  async reconnect(_, name) {
    const client = new Client(port, { reconnect: true, initial_reconnect_delay: 100, max_reconnect_delay: 100 });
    const sender = await client.sender(queue(name));
    await client.send(sender, 'before');
    console.log('ready');
    await once(client.connection, 'disconnected');
    await once(sender, 'sendable');
    await client.send(sender, 'after');
    const receiver = client.receiver(queue(name));
    expect('before', (await receiver.next()).message.body);
    expect('after', (await receiver.next()).message.body);
    client.close();
  },

  async more_than_a_session_window(client, name) {
    const sender = await client.sender(queue(name));
    const count = 5000;
    let accepted = 0;
    const all = new Promise((resolve) => sender.on('accepted', () => ++accepted === count && resolve()));
    let sent = 0;
    const pump = () => {
      while (sent < count && sender.sendable()) sender.send({ body: sent++ });
    };
    sender.on('sendable', pump);
    pump();
    await within(all, 'accepting');
    const receiver = client.receiver(queue(name), { credit_window: 4000 });
    for (let n = 0; n < count; n++) expect(n, (await receiver.next()).message.body);
  },
};

run(scenarios, () => new Client(port));
