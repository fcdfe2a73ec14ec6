//! The options of the command line.

use std::collections::HashMap;

pub const USAGE: &str = "penstock-load --url HOST:PORT --dest NAME [option ...]

  --proto stomp|amqp10     the protocol (stomp)
  --login NAME             and --passcode TEXT; without them no login (STOMP) or SASL ANONYMOUS (AMQP)
  --kind queue|topic       of the destination (queue)
  --messages N             in all, over all producers (100000)
  --size OCTETS            of a body, at least 24 (1024)
  --persistent             or --non-persistent (the default)
  --producers N            connections that send (1)
  --consumers N            connections that receive (1)
  --mode both|produce|consume
  --receipt-every N        messages a producer may have unconfirmed; 1: one at a time; 0: asks for no confirmation (1000)
  --ack auto|client|client-individual
  --prefetch N             messages a consumer may hold (1000)
  --rate N                 messages a second over all producers; 0: as fast as they go (0)
  --idle-timeout SECONDS   without a message, after which consumers give up (10)
  --timeline               also counts for each second
  --watch-pid PID          also the processor time of that process
  --json                   the report as JSON (the only form; accepted for clarity)
";

#[derive(Clone, Copy, PartialEq)]
pub enum Protocol {
    Stomp,
    Amqp,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Ack {
    Auto,
    Client,
    Individual,
}

#[derive(Clone)]
pub struct Options {
    pub protocol: Protocol,
    pub url: String,
    pub destination: String,
    pub login: String,
    pub passcode: String,
    pub is_topic: bool,
    pub messages: u64,
    pub size: usize,
    pub is_persistent: bool,
    pub producers: u64,
    pub consumers: u64,
    pub unconfirmed_max: u64,
    pub ack: Ack,
    pub prefetch: u32,
    pub rate: u64,
    pub idle_timeout_s: u64,
    pub has_timeline: bool,
    pub watched: Option<u32>,
}

impl Options {
    /// Read the arguments after the program's name; Err names the wrong one.
    pub fn read(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut flags: HashMap<String, String> = HashMap::new();
        let mut rest = arguments;
        while let Some(name) = rest.next() {
            match name.as_str() {
                "--persistent" => flags.insert("durable".into(), "yes".into()),
                "--non-persistent" => flags.insert("durable".into(), "no".into()),
                "--timeline" => flags.insert("timeline".into(), "yes".into()),
                "--json" => None,
                _ => {
                    let key = name.strip_prefix("--").ok_or(format!("not an option: {name}"))?;
                    if !KNOWN.contains(&key) {
                        return Err(format!("unknown option {name}"));
                    }
                    let value = rest.next().ok_or(format!("{name} needs a value"))?;
                    flags.insert(key.into(), value)
                }
            };
        }
        let text = |name: &str, otherwise: &str| flags.get(name).cloned().unwrap_or(otherwise.into());
        let number = |name: &str, otherwise: u64, least: u64| -> Result<u64, String> {
            let Some(value) = flags.get(name) else { return Ok(otherwise) };
            let found = value.parse::<u64>().map_err(|_| format!("--{name} {value}: not a number"))?;
            if found < least {
                return Err(format!("--{name} {value}: at least {least}"));
            }
            Ok(found)
        };
        let mode = text("mode", "both");
        if !["both", "produce", "consume"].contains(&mode.as_str()) {
            return Err(format!("--mode {mode}: allowed are both, produce, consume"));
        }
        let required = |name: &str| flags.get(name).cloned().ok_or(format!("--{name} is required"));
        Ok(Options {
            protocol: match text("proto", "stomp").as_str() {
                "stomp" => Protocol::Stomp,
                "amqp10" => Protocol::Amqp,
                other => return Err(format!("--proto {other}: allowed are stomp, amqp10")),
            },
            url: required("url")?,
            destination: required("dest")?,
            login: text("login", ""),
            passcode: text("passcode", ""),
            is_topic: match text("kind", "queue").as_str() {
                "queue" => false,
                "topic" => true,
                other => return Err(format!("--kind {other}: allowed are queue, topic")),
            },
            messages: number("messages", 100_000, 1)?,
            size: number("size", 1024, crate::tally::HEAD as u64)? as usize,
            is_persistent: text("durable", "no") == "yes",
            producers: if mode == "consume" { 0 } else { number("producers", 1, 1)? },
            consumers: if mode == "produce" { 0 } else { number("consumers", 1, 1)? },
            unconfirmed_max: number("receipt-every", 1000, 0)?,
            ack: match text("ack", "client-individual").as_str() {
                "auto" => Ack::Auto,
                "client" => Ack::Client,
                "client-individual" => Ack::Individual,
                other => return Err(format!("--ack {other}: allowed are auto, client, client-individual")),
            },
            prefetch: number("prefetch", 1000, 1)? as u32,
            rate: number("rate", 0, 0)?,
            idle_timeout_s: number("idle-timeout", 10, 1)?,
            has_timeline: flags.contains_key("timeline"),
            watched: match flags.get("watch-pid") {
                None => None,
                Some(pid) => Some(pid.parse().map_err(|_| format!("--watch-pid {pid}: not a number"))?),
            },
        })
    }
}

const KNOWN: [&str; 17] = [
    "proto", "url", "dest", "login", "passcode", "kind", "messages", "size", "producers", "consumers", "mode", "receipt-every", "ack",
    "prefetch", "rate", "idle-timeout", "watch-pid",
];
