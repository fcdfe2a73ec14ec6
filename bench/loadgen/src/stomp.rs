//! STOMP 1.2.

use crate::link::{broken, Confirmations, Consumer, Input, Producer, Progress};
use crate::options::{Ack, Options};
use crate::tally::write_head;
use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

const RECEIPT_DIGITS: usize = 12;
const BYE: &[u8] = b"DISCONNECT\nreceipt:bye\n\n\0";

/// A frame within the octets of a read: the places of its parts.
struct Frame {
    body: (usize, usize),
    ack: (usize, usize),
    is_message: bool,
    is_bye: bool,
    length: usize,
}

/// Return the first whole frame, None if more octets are needed; Err if it is an ERROR.
fn next_frame(octets: &[u8]) -> io::Result<Option<Frame>> {
    let blank = octets.iter().take_while(|octet| matches!(octet, b'\n' | b'\r')).count();
    let mut at = blank;
    let mut line = 0;
    let (mut content_length, mut ack, mut is_message, mut is_bye, mut is_error) = (None, (0, 0), false, false, false);
    loop {
        let Some(length) = octets[at..].iter().position(|octet| *octet == b'\n') else { return Ok(None) };
        let text = &octets[at..at + length];
        let start = at;
        at += length + 1;
        if text.is_empty() && line > 0 {
            break;
        }
        if line == 0 {
            is_message = text == b"MESSAGE";
            is_error = text == b"ERROR";
        } else if let Some(value) = text.strip_prefix(b"content-length:") {
            content_length = std::str::from_utf8(value).ok().and_then(|digits| digits.parse::<usize>().ok());
        } else if text.starts_with(b"ack:") {
            ack = (start + 4, start + length);
        } else if text == b"receipt-id:bye" {
            is_bye = true;
        }
        line += 1;
    }
    let end = match content_length {
        Some(length) => at + length,
        None => match octets[at..].iter().position(|octet| *octet == 0) {
            Some(length) => at + length,
            None => return Ok(None),
        },
    };
    if octets.len() <= end {
        return Ok(None);
    }
    if is_error {
        return Err(broken(String::from_utf8_lossy(&octets[blank..end]).into_owned()));
    }
    Ok(Some(Frame { body: (at, end), ack, is_message, is_bye, length: end + 1 }))
}

fn connect(options: &Options) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(&options.url)?;
    stream.set_nodelay(true)?;
    let mut frame = String::from("CONNECT\naccept-version:1.2\nhost:localhost\nheart-beat:0,0\n");
    if !options.login.is_empty() {
        frame.push_str(&format!("login:{}\npasscode:{}\n", options.login, options.passcode));
    }
    frame.push_str("\n\0");
    stream.write_all(frame.as_bytes())?;
    let mut input = Input::new(stream.try_clone()?);
    loop {
        input.fill()?;
        if next_frame(input.octets())?.is_some() {
            return Ok(stream);
        }
    }
}

fn destination(options: &Options) -> String {
    if options.destination.starts_with('/') {
        return options.destination.clone();
    }
    format!("/{}/{}", if options.is_topic { "topic" } else { "queue" }, options.destination)
}

pub struct StompProducer {
    stream: TcpStream,
    template: Vec<u8>,
    receipt_at: usize, // 0: none
    body_at: usize,
    number: u32,
    out: Vec<u8>,
}

pub fn producer(options: &Options, number: u32) -> io::Result<(StompProducer, StompConfirmations)> {
    let stream = connect(options)?;
    let mut head = format!("SEND\ndestination:{}\ncontent-length:{}\n", destination(options), options.size);
    if options.is_persistent {
        head.push_str("persistent:true\n");
    }
    let mut receipt_at = 0;
    if options.unconfirmed_max > 0 {
        head.push_str("receipt:");
        receipt_at = head.len();
        head.push_str(&format!("{:0width$}\n", 0, width = RECEIPT_DIGITS));
    }
    head.push('\n');
    let body_at = head.len();
    let mut template = head.into_bytes();
    template.extend(std::iter::repeat(b'x').take(options.size));
    template.push(0);
    let confirmations = StompConfirmations { input: Input::new(stream.try_clone()?) };
    Ok((StompProducer { stream, template, receipt_at, body_at, number, out: Vec::new() }, confirmations))
}

impl Producer for StompProducer {
    fn push(&mut self, sequence: u64, sent_ns: u64) {
        if self.receipt_at > 0 {
            let mut rest = sequence;
            for at in (self.receipt_at..self.receipt_at + RECEIPT_DIGITS).rev() {
                self.template[at] = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
        write_head(&mut self.template[self.body_at..], sent_ns, sequence, self.number);
        self.out.extend_from_slice(&self.template);
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.stream.write_all(&self.out);
        self.out.clear();
        done
    }

    fn leave(&mut self) -> io::Result<()> {
        self.stream.write_all(BYE)
    }
}

pub struct StompConfirmations {
    input: Input,
}

impl Confirmations for StompConfirmations {
    fn read(&mut self, progress: &Progress) -> io::Result<bool> {
        self.input.fill()?;
        let mut count = 0;
        let mut is_open = true;
        while let Some(frame) = next_frame(self.input.octets())? {
            self.input.skip(frame.length);
            if frame.is_bye {
                is_open = false;
            } else {
                count += 1;
            }
        }
        progress.confirmed.fetch_add(count, Ordering::Release);
        Ok(is_open)
    }
}

/// Octets that a message has beside its body, about, as Artemis counts its window.
const HEADERS_SIZE: i64 = 176;

pub struct StompConsumer {
    stream: TcpStream,
    input: Input,
    ack: Ack,
    out: Vec<u8>,
}

pub fn consumer(options: &Options, patience: Duration) -> io::Result<StompConsumer> {
    let mut stream = connect(options)?;
    let ack = match options.ack {
        Ack::Auto => "auto",
        Ack::Client => "client",
        Ack::Individual => "client-individual",
    };
    let (name, prefetch) = (destination(options), options.prefetch);
    // Artemis takes activemq.prefetchSize for octets and, with ack:auto, never opens the window again.
    let window = match options.ack {
        Ack::Auto => -1,
        _ => i64::from(prefetch) * (options.size as i64 + HEADERS_SIZE),
    };
    stream.write_all(
        format!(
            "SUBSCRIBE\nid:1\ndestination:{name}\nack:{ack}\nactivemq.prefetchSize:{prefetch}\n\
             prefetch-count:{prefetch}\nconsumer-window-size:{window}\nreceipt:subscribed\n\n\0"
        )
        .as_bytes(),
    )?;
    // Messages before the receipt stay in the input, where the first read finds them.
    let mut input = Input::new(stream.try_clone()?);
    while !input.octets().windows(21).any(|part| part == b"receipt-id:subscribed") {
        input.fill()?;
    }
    stream.set_read_timeout(Some(patience))?;
    Ok(StompConsumer { stream, input, ack: options.ack, out: Vec::new() })
}

impl Consumer for StompConsumer {
    fn read(&mut self, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut last = Vec::new();
        loop {
            let octets = self.input.octets();
            let Some(frame) = next_frame(octets)? else { break };
            if frame.is_message {
                each(&octets[frame.body.0..frame.body.1]);
                let id = &octets[frame.ack.0..frame.ack.1];
                match self.ack {
                    Ack::Auto => (),
                    Ack::Client => {
                        last.clear();
                        last.extend_from_slice(id);
                    }
                    Ack::Individual => write_ack(&mut self.out, id),
                }
            }
            self.input.skip(frame.length);
        }
        if !last.is_empty() {
            write_ack(&mut self.out, &last);
        }
        if !self.out.is_empty() {
            self.stream.write_all(&self.out)?;
            self.out.clear();
        }
        self.input.fill()?;
        Ok(())
    }

    fn leave(&mut self) -> io::Result<()> {
        self.stream.write_all(BYE)?;
        self.stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        loop {
            while let Some(frame) = next_frame(self.input.octets())? {
                self.input.skip(frame.length);
                if frame.is_bye {
                    return Ok(());
                }
            }
            if !self.input.fill()? {
                return Err(broken("no answer to DISCONNECT within 10 s".into()));
            }
        }
    }
}

fn write_ack(out: &mut Vec<u8>, id: &[u8]) {
    out.extend_from_slice(b"ACK\nid:");
    out.extend_from_slice(id);
    out.extend_from_slice(b"\n\n\0");
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"\nMESSAGE\nack:7\ncontent-length:3\n\na\0b\0RECEIPT\nreceipt-id:bye\n\n\0";

    #[test]
    fn a_frame_is_found_whole_and_at_no_cut() {
        let frame = next_frame(MESSAGE).unwrap().unwrap();
        assert_eq!(&MESSAGE[frame.body.0..frame.body.1], b"a\0b");
        assert_eq!(&MESSAGE[frame.ack.0..frame.ack.1], b"7");
        for cut in 0..frame.length {
            assert!(next_frame(&MESSAGE[..cut]).unwrap().is_none(), "cut at {cut}");
        }
        assert!(next_frame(&MESSAGE[frame.length..]).unwrap().unwrap().is_bye);
    }

    #[test]
    fn an_error_ends_the_run() {
        assert!(next_frame(b"ERROR\nmessage:no\n\nbecause\0").is_err());
    }
}
