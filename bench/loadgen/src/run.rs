//! One run: all clients connect, the clock starts, threads send and receive until all messages have come or no more come.

use crate::link::{broken, Confirmations, Consumer, Producer, Progress};
use crate::options::{Options, Protocol};
use crate::tally::{now_ns, Histogram, Received};
use crate::{amqp, machine, stomp};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

const BATCH: u64 = 64; // messages in one write
const PATIENCE: Duration = Duration::from_millis(200); // of a consumer's read, before it checks whether the run is done
const LATE_NS: u64 = 1_000_000; // a paced message later than this is stamped with its planned time

pub struct Outcome {
    pub sent: u64,
    pub confirmed: u64,
    pub produce_s: f64,
    pub consume_s: f64,
    pub produced_each_s: Vec<u64>,
    pub confirm: Histogram,
    pub received: Received,
    pub expected: u64,
    pub lost: u64,
    pub loadgen_cpu_s: f64,
    pub watched_cpu_s: f64,
    pub machine_busy_s: f64,
    pub machine_stolen_s: f64,
    pub errors: Vec<String>,
}

impl Outcome {
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty() && self.lost == 0
    }
}

/// The shared state of all threads.
struct Shared {
    start_ns: u64,
    expected: u64,
    received: AtomicU64,
    last_ns: AtomicU64, // of the last message sent or received
    is_over: AtomicBool,
}

struct Sent {
    count: u64,
    confirmed: u64,
    last_ns: u64,
    confirm: Histogram,
    each_s: Vec<u64>,
}

type Pair = (Box<dyn Producer>, Box<dyn Confirmations>);

fn open_producer(options: &Options, number: u32) -> io::Result<Pair> {
    Ok(match options.protocol {
        Protocol::Stomp => {
            let (producer, confirmations) = stomp::producer(options, number)?;
            (Box::new(producer), Box::new(confirmations))
        }
        Protocol::Amqp => {
            let (producer, confirmations) = amqp::producer(options, number)?;
            (Box::new(producer), Box::new(confirmations))
        }
    })
}

fn open_consumer(options: &Options, number: u32) -> io::Result<Box<dyn Consumer>> {
    Ok(match options.protocol {
        Protocol::Stomp => Box::new(stomp::consumer(options, PATIENCE)?),
        Protocol::Amqp => Box::new(amqp::consumer(options, number, PATIENCE)?),
    })
}

fn open_all(options: &Options) -> io::Result<(Vec<Box<dyn Consumer>>, Vec<Pair>)> {
    let consumers: io::Result<Vec<_>> = (0..options.consumers).map(|at| open_consumer(options, at as u32)).collect();
    let producers: io::Result<Vec<_>> = (0..options.producers).map(|at| open_producer(options, at as u32)).collect();
    Ok((consumers?, producers?))
}

pub fn run(options: &Options) -> Outcome {
    let subscribers = if options.is_topic { options.consumers } else { options.consumers.min(1) };
    let expected = options.messages * subscribers;
    let start_ns = now_ns();
    let mut outcome = Outcome {
        sent: 0,
        confirmed: 0,
        produce_s: 0.0,
        consume_s: 0.0,
        produced_each_s: Vec::new(),
        confirm: Histogram::new(),
        received: Received::new(options.size, start_ns),
        expected,
        lost: 0,
        loadgen_cpu_s: 0.0,
        watched_cpu_s: 0.0,
        machine_busy_s: 0.0,
        machine_stolen_s: 0.0,
        errors: Vec::new(),
    };
    let (consumers, producers) = match open_all(options) {
        Ok(both) => both,
        Err(error) => {
            outcome.errors.push(error.to_string());
            return outcome;
        }
    };
    let watched = || options.watched.map_or(0.0, |pid| machine::process_s(Some(pid)));
    let before = (machine::process_s(None), watched(), machine::machine_s());
    let start_ns = now_ns();
    outcome.received = Received::new(options.size, start_ns);
    let shared = Arc::new(Shared {
        start_ns,
        expected,
        received: AtomicU64::new(0),
        last_ns: AtomicU64::new(start_ns),
        is_over: AtomicBool::new(false),
    });
    let receiving: Vec<JoinHandle<(Received, Option<io::Error>)>> = consumers
        .into_iter()
        .map(|consumer| {
            let (options, shared) = (options.clone(), shared.clone());
            thread::spawn(move || receive(consumer, &options, &shared))
        })
        .collect();
    let sending: Vec<JoinHandle<io::Result<Sent>>> = producers
        .into_iter()
        .enumerate()
        .map(|(number, pair)| {
            let (options, shared) = (options.clone(), shared.clone());
            thread::spawn(move || send(pair, &options, number as u64, &shared))
        })
        .collect();
    let mut last_sent_ns = start_ns;
    for thread in sending {
        match thread.join().expect("a producer's thread does not panic") {
            Ok(sent) => {
                outcome.sent += sent.count;
                outcome.confirmed += sent.confirmed;
                outcome.confirm.merge(&sent.confirm);
                last_sent_ns = last_sent_ns.max(sent.last_ns);
                add_up(&mut outcome.produced_each_s, &sent.each_s);
            }
            Err(error) => {
                outcome.errors.push(format!("producer: {error}"));
                shared.is_over.store(true, Ordering::Release);
            }
        }
    }
    for thread in receiving {
        let (received, error) = thread.join().expect("a consumer's thread does not panic");
        if options.is_topic {
            outcome.lost += options.messages.saturating_sub(received.distinct());
        }
        outcome.received.merge(&received, !options.is_topic);
        outcome.errors.extend(error.map(|error| format!("consumer: {error}")));
    }
    if !options.is_topic && options.consumers > 0 {
        outcome.lost = options.messages.saturating_sub(outcome.received.distinct());
    }
    let after = (machine::process_s(None), watched(), machine::machine_s());
    outcome.loadgen_cpu_s = after.0 - before.0;
    outcome.watched_cpu_s = after.1 - before.1;
    outcome.machine_busy_s = after.2 .0 - before.2 .0;
    outcome.machine_stolen_s = after.2 .1 - before.2 .1;
    outcome.produce_s = seconds(start_ns, last_sent_ns);
    outcome.consume_s = seconds(start_ns, outcome.received.last_ns);
    outcome
}

fn seconds(start_ns: u64, end_ns: u64) -> f64 {
    end_ns.saturating_sub(start_ns) as f64 / 1e9
}

fn add_up(sum: &mut Vec<u64>, part: &[u64]) {
    if sum.len() < part.len() {
        sum.resize(part.len(), 0);
    }
    for (mine, theirs) in sum.iter_mut().zip(part) {
        *mine += theirs;
    }
}

/// Send a producer's share of the messages, and wait until all of it is confirmed.
fn send(pair: Pair, options: &Options, number: u64, shared: &Shared) -> io::Result<Sent> {
    let share = options.messages / options.producers + u64::from(number < options.messages % options.producers);
    let progress = Arc::new(Progress { confirmed: AtomicU64::new(0), allowed: AtomicU64::new(0) });
    if options.protocol == Protocol::Stomp {
        progress.allowed.store(u64::MAX, Ordering::Release);
    }
    if options.rate > 0 {
        return send_paced(pair, options, number, share, shared, &progress);
    }
    let (mut producer, mut confirmations) = pair;
    let window = if options.unconfirmed_max == 0 { u64::MAX } else { options.unconfirmed_max };
    let is_confirmed = options.unconfirmed_max > 0;
    let mut sent = Sent { count: 0, confirmed: 0, last_ns: 0, confirm: Histogram::new(), each_s: Vec::new() };
    while sent.count < share {
        let confirmed = if is_confirmed { progress.confirmed.load(Ordering::Acquire) } else { sent.count };
        let room = (window - (sent.count - confirmed)).min(progress.allowed.load(Ordering::Acquire) - sent.count);
        let batch = room.min(BATCH).min(share - sent.count);
        if batch == 0 {
            confirmations.read(&progress)?;
            continue;
        }
        let began_ns = now_ns();
        for _ in 0..batch {
            producer.push(sent.count, began_ns);
            sent.count += 1;
        }
        producer.flush()?;
        if window == 1 {
            while progress.confirmed.load(Ordering::Acquire) < sent.count {
                confirmations.read(&progress)?;
            }
            sent.confirm.add(now_ns() - began_ns);
        }
        note(&mut sent.each_s, shared.start_ns, began_ns, batch);
        shared.last_ns.store(began_ns, Ordering::Relaxed);
        if shared.is_over.load(Ordering::Acquire) {
            return Err(broken("ended because another connection failed".into()));
        }
    }
    while is_confirmed && progress.confirmed.load(Ordering::Acquire) < share {
        confirmations.read(&progress)?;
    }
    sent.last_ns = now_ns();
    producer.leave()?;
    while confirmations.read(&progress)? {}
    if !is_confirmed {
        sent.last_ns = now_ns(); // the answer to `leave` confirms all of them
    }
    sent.confirmed = progress.confirmed.load(Ordering::Acquire);
    Ok(sent)
}

/// Send at an even pace; another thread reads the confirmations, so that sending never waits for them.
fn send_paced(
    pair: Pair,
    options: &Options,
    number: u64,
    share: u64,
    shared: &Shared,
    progress: &Arc<Progress>,
) -> io::Result<Sent> {
    let (mut producer, mut confirmations) = pair;
    let reading = {
        let progress = progress.clone();
        thread::spawn(move || -> io::Result<u64> {
            while confirmations.read(&progress)? {}
            Ok(now_ns())
        })
    };
    let step_ns = 1_000_000_000 * options.producers / options.rate;
    let first_ns = shared.start_ns + step_ns * number / options.producers;
    let mut sent = Sent { count: 0, confirmed: 0, last_ns: 0, confirm: Histogram::new(), each_s: Vec::new() };
    while sent.count < share {
        let planned_ns = first_ns + sent.count * step_ns;
        let now = now_ns();
        if now < planned_ns {
            thread::sleep(Duration::from_nanos(planned_ns - now));
            continue;
        }
        if progress.allowed.load(Ordering::Acquire) <= sent.count {
            if reading.is_finished() {
                break;
            }
            thread::sleep(Duration::from_micros(50));
            continue;
        }
        producer.push(sent.count, if now - planned_ns > LATE_NS { planned_ns } else { now });
        producer.flush()?;
        sent.count += 1;
        note(&mut sent.each_s, shared.start_ns, now, 1);
        shared.last_ns.store(now, Ordering::Relaxed);
    }
    producer.leave()?;
    sent.last_ns = reading.join().expect("the reader of confirmations does not panic")?;
    sent.confirmed = progress.confirmed.load(Ordering::Acquire);
    Ok(sent)
}

fn note(each_s: &mut Vec<u64>, start_ns: u64, now_ns: u64, count: u64) {
    let second = (now_ns.saturating_sub(start_ns) / 1_000_000_000) as usize;
    if each_s.len() <= second {
        each_s.resize(second + 1, 0);
    }
    each_s[second] += count;
}

/// Receive until all consumers together have everything, or no message has come for the idle time-out.
fn receive(mut consumer: Box<dyn Consumer>, options: &Options, shared: &Shared) -> (Received, Option<io::Error>) {
    let mut received = Received::new(options.size, shared.start_ns);
    let idle_ns = options.idle_timeout_s * 1_000_000_000;
    loop {
        let before = received.count;
        let read_ns = now_ns();
        let outcome = consumer.read(&mut |body| received.take(body, read_ns));
        if let Err(error) = outcome {
            shared.is_over.store(true, Ordering::Release);
            return (received, Some(error));
        }
        let count = received.count - before;
        if count > 0 {
            shared.received.fetch_add(count, Ordering::AcqRel);
            shared.last_ns.store(read_ns, Ordering::Relaxed);
        }
        let is_idle = now_ns().saturating_sub(shared.last_ns.load(Ordering::Relaxed)) > idle_ns;
        let has_all = shared.received.load(Ordering::Acquire) >= shared.expected;
        if has_all || is_idle || shared.is_over.load(Ordering::Acquire) {
            let read_ns = now_ns();
            // Messages that have come already are counted, and acknowledged like the rest.
            let mut outcome = consumer.read(&mut |body| received.take(body, read_ns));
            if outcome.is_ok() {
                outcome = consumer.leave();
            }
            return (received, outcome.err());
        }
    }
}
