//! AMQP 1.0: one session and one link per connection; messages of one data section.

use crate::link::{broken, Confirmations, Consumer, Input, Producer, Progress};
use crate::options::{Ack, Options};
use crate::tally::write_head;
use crate::wire::{self, frame, List, Reader, Value};
use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

const MAX_FRAME_BYTES: u32 = 1 << 20;
const WINDOW: u32 = 1 << 30;
const SECONDS_TO_ANSWER: u64 = 10;

/// A whole frame within the octets of a read: its performative, where its fields begin, its length.
struct Frame {
    code: u64,
    fields_at: usize,
    length: usize,
}

fn next_frame(octets: &[u8]) -> io::Result<Option<Frame>> {
    if octets.len() < 8 {
        return Ok(None);
    }
    let length = u32::from_be_bytes(octets[..4].try_into().expect("four octets")) as usize;
    if length < 8 || length > MAX_FRAME_BYTES as usize {
        return Err(broken(format!("a frame of {length} octets")));
    }
    if octets.len() < length {
        return Ok(None);
    }
    let body_at = usize::from(octets[4]) * 4;
    if body_at == length {
        return Ok(Some(Frame { code: 0, fields_at: length, length })); // empty: the peer is alive
    }
    let mut reader = Reader::new(&octets[body_at..length]);
    let code = reader.descriptor()?;
    Ok(Some(Frame { code, fields_at: body_at + reader.at, length }))
}

/// Open a connection, a session and the link that `attach` describes; return it once the peer has attached, too.
fn connect(options: &Options, container: &str, attach: List) -> io::Result<(TcpStream, Input)> {
    let mut stream = TcpStream::connect(&options.url)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(SECONDS_TO_ANSWER)))?;
    let mut input = Input::new(stream.try_clone()?);
    let init = if options.login.is_empty() {
        List::new().symbol("ANONYMOUS")
    } else {
        let response = format!("\0{}\0{}", options.login, options.passcode); // RFC 4616
        List::new().symbol("PLAIN").binary(response.as_bytes())
    };
    let init = init.encode(wire::SASL_INIT);
    stream.write_all(&[b"AMQP\x03\x01\x00\x00".as_slice(), &frame(1, &init)].concat())?;
    header(&mut input, b"AMQP\x03\x01\x00\x00")?;
    await_code(&mut input, wire::SASL_OUTCOME)?;
    let open = List::new().string(container).string("localhost").uint(MAX_FRAME_BYTES).ushort(0).encode(wire::OPEN);
    let begin = List::new().null().uint(0).uint(WINDOW).uint(WINDOW).uint(0).encode(wire::BEGIN);
    let octets = [
        b"AMQP\x00\x01\x00\x00".as_slice(),
        &frame(0, &open),
        &frame(0, &begin),
        &frame(0, &attach.encode(wire::ATTACH)),
    ];
    stream.write_all(&octets.concat())?;
    header(&mut input, b"AMQP\x00\x01\x00\x00")?;
    await_code(&mut input, wire::ATTACH)?;
    Ok((stream, input))
}

fn header(input: &mut Input, wanted: &[u8; 8]) -> io::Result<()> {
    while input.octets().len() < 8 {
        if !input.fill()? {
            return Err(broken("no protocol header".into()));
        }
    }
    if &input.octets()[..8] != wanted {
        return Err(broken(format!("protocol header {:?}", &input.octets()[..8])));
    }
    input.skip(8);
    Ok(())
}

/// Skip frames up to the first one of that kind, and that one, too.
fn await_code(input: &mut Input, wanted: u8) -> io::Result<()> {
    loop {
        while let Some(found) = next_frame(input.octets())? {
            let code = found.code as u8;
            refuse_end(input.octets(), &found, wanted)?;
            input.skip(found.length);
            if code == wanted {
                return Ok(());
            }
        }
        if !input.fill()? {
            return Err(broken(format!("no performative {wanted:#04x} within {SECONDS_TO_ANSWER} s")));
        }
    }
}

/// Turn an unexpected detach, end or close into an error with the peer's text.
fn refuse_end(octets: &[u8], found: &Frame, wanted: u8) -> io::Result<()> {
    let code = found.code as u8;
    if code != wanted && matches!(code, wire::DETACH | wire::END | wire::CLOSE) {
        let text = String::from_utf8_lossy(&octets[found.fields_at..found.length]).into_owned();
        let words: String = text.chars().filter(|letter| !letter.is_control()).collect();
        return Err(broken(format!("the peer ended the link, session or connection: {words}")));
    }
    Ok(())
}

fn capability(options: &Options) -> &'static str {
    if options.is_topic {
        "topic"
    } else {
        "queue"
    }
}

pub struct AmqpProducer {
    stream: TcpStream,
    template: Vec<u8>,
    id_at: usize,
    tag_at: usize,
    body_at: usize,
    number: u32,
    out: Vec<u8>,
}

pub fn producer(options: &Options, number: u32) -> io::Result<(AmqpProducer, AmqpConfirmations)> {
    let is_settled = options.unconfirmed_max == 0;
    let source = List::new();
    let target = List::new().string(&options.destination).uint(0).null().null().null().null();
    let attach = List::new()
        .string(&format!("load-sender-{number}"))
        .uint(0)
        .boolean(false) // role: sender
        .ubyte(if is_settled { 1 } else { 0 })
        .ubyte(0)
        .described(0x28, source)
        .described(0x29, target.symbol(capability(options)))
        .null()
        .null()
        .uint(0);
    let (stream, input) = connect(options, &format!("load-producer-{}-{number}", std::process::id()), attach)?;
    let transfer = List::new().uint(0).wide_uint(0x5858_5858).binary(&[0x59; 4]).uint(0).boolean(is_settled);
    let mut head = transfer.encode(wire::TRANSFER);
    let id_at = 8 + find(&head, &[0x58; 4]);
    let tag_at = 8 + find(&head, &[0x59; 4]);
    head.extend_from_slice(&List::new().boolean(options.is_persistent).encode(0x70));
    head.extend_from_slice(&[0x00, 0x53, 0x75, 0xb0]);
    head.extend_from_slice(&(options.size as u32).to_be_bytes());
    let body_at = 8 + head.len();
    head.extend(std::iter::repeat(b'x').take(options.size));
    let template = frame(0, &head);
    if template.len() > MAX_FRAME_BYTES as usize {
        return Err(broken(format!("--size {}: a message must fit into a frame of {MAX_FRAME_BYTES}", options.size)));
    }
    let confirmations = AmqpConfirmations { input };
    Ok((AmqpProducer { stream, template, id_at, tag_at, body_at, number, out: Vec::new() }, confirmations))
}

fn find(octets: &[u8], part: &[u8]) -> usize {
    octets.windows(part.len()).position(|window| window == part).expect("the template has the part")
}

impl Producer for AmqpProducer {
    fn push(&mut self, sequence: u64, sent_ns: u64) {
        let id = (sequence as u32).to_be_bytes();
        self.template[self.id_at..self.id_at + 4].copy_from_slice(&id);
        self.template[self.tag_at..self.tag_at + 4].copy_from_slice(&id);
        write_head(&mut self.template[self.body_at..], sent_ns, sequence, self.number);
        self.out.extend_from_slice(&self.template);
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.stream.write_all(&self.out);
        self.out.clear();
        done
    }

    fn leave(&mut self) -> io::Result<()> {
        self.stream.write_all(&goodbye())
    }
}

fn goodbye() -> Vec<u8> {
    let detach = List::new().uint(0).boolean(true).encode(wire::DETACH);
    [frame(0, &detach), frame(0, &List::new().encode(wire::END)), frame(0, &List::new().encode(wire::CLOSE))].concat()
}

pub struct AmqpConfirmations {
    input: Input,
}

impl Confirmations for AmqpConfirmations {
    fn read(&mut self, progress: &Progress) -> io::Result<bool> {
        // The credit after the attach may be in the input already; later nothing is left over.
        if next_frame(self.input.octets())?.is_none() {
            self.input.fill()?;
        }
        self.take(progress)
    }
}

impl AmqpConfirmations {
    fn take(&mut self, progress: &Progress) -> io::Result<bool> {
        while let Some(found) = next_frame(self.input.octets())? {
            let octets = self.input.octets();
            let mut reader = Reader::new(&octets[found.fields_at..found.length]);
            match found.code as u8 {
                wire::FLOW => {
                    let fields: [Value; 7] = reader.fields()?;
                    if let (Value::Number(count), Value::Number(credit)) = (fields[5], fields[6]) {
                        progress.allowed.store(count + credit, Ordering::Release);
                    }
                }
                wire::DISPOSITION => {
                    let fields: [Value; 3] = reader.fields()?;
                    let Value::Number(first) = fields[1] else { return Err(broken("disposition without first".into())) };
                    let last = if let Value::Number(last) = fields[2] { last } else { first };
                    progress.confirmed.fetch_add(last + 1 - first, Ordering::Release);
                }
                wire::DETACH if !has_error(&mut reader)? => (),
                wire::END => (),
                wire::CLOSE => {
                    self.input.skip(found.length);
                    return Ok(false);
                }
                wire::DETACH => refuse_end(octets, &found, 0)?,
                _ => (),
            }
            self.input.skip(found.length);
        }
        Ok(true)
    }
}

/// Whether a detach has an error: its third field.
fn has_error(reader: &mut Reader) -> io::Result<bool> {
    let count = reader.list()?;
    for index in 0..count {
        let at = reader.at;
        reader.value()?;
        if index == 2 && reader.at - at > 1 {
            return Ok(true);
        }
    }
    Ok(false)
}

pub struct AmqpConsumer {
    stream: TcpStream,
    input: Input,
    ack: Ack,
    prefetch: u32,
    received: u32,
    granted: u32,
    out: Vec<u8>,
}

pub fn consumer(options: &Options, number: u32, patience: Duration) -> io::Result<AmqpConsumer> {
    let source = List::new().string(&options.destination).uint(0).null().null().null().null().null().null();
    let source = source.null().null().symbol(capability(options));
    let attach = List::new()
        .string(&format!("load-receiver-{number}"))
        .uint(0)
        .boolean(true) // role: receiver
        .ubyte(if options.ack == Ack::Auto { 1 } else { 0 })
        .ubyte(0)
        .described(0x28, source)
        .described(0x29, List::new());
    let (mut stream, input) = connect(options, &format!("load-consumer-{}-{number}", std::process::id()), attach)?;
    stream.write_all(&credit(0, options.prefetch))?;
    stream.set_read_timeout(Some(patience))?;
    let (ack, prefetch) = (options.ack, options.prefetch);
    Ok(AmqpConsumer { stream, input, ack, prefetch, received: 0, granted: prefetch, out: Vec::new() })
}

/// Return a flow of the receiver: link-credit counted from `received` deliveries.
fn credit(received: u32, credit: u32) -> Vec<u8> {
    let flow = List::new().uint(received).uint(WINDOW).uint(0).uint(WINDOW).uint(0).uint(received).uint(credit);
    frame(0, &flow.encode(wire::FLOW))
}

/// Return the disposition of a receiver that has accepted deliveries `first` to `last`.
fn accepted(first: u32, last: u32) -> Vec<u8> {
    let state = List::new();
    let body = List::new().boolean(true).uint(first).uint(last).boolean(true).described(0x24, state);
    frame(0, &body.encode(wire::DISPOSITION))
}

impl Consumer for AmqpConsumer {
    fn read(&mut self, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut range: Option<(u32, u32)> = None;
        loop {
            let octets = self.input.octets();
            let Some(found) = next_frame(octets)? else { break };
            if found.code as u8 == wire::TRANSFER {
                let mut reader = Reader::new(&octets[found.fields_at..found.length]);
                let fields: [Value; 6] = reader.fields()?;
                let Value::Number(id) = fields[1] else { return Err(broken("a transfer without delivery-id".into())) };
                if fields[5] == Value::Boolean(true) {
                    return Err(broken("a message in several frames".into()));
                }
                each(body_of(&octets[found.fields_at + reader.at..found.length])?);
                self.received = self.received.wrapping_add(1);
                let id = id as u32;
                match self.ack {
                    Ack::Auto => (),
                    Ack::Client => range = Some(range.map_or((id, id), |(first, _)| (first, id))),
                    Ack::Individual => self.out.extend_from_slice(&accepted(id, id)),
                }
            } else {
                refuse_end(octets, &found, 0)?;
            }
            self.input.skip(found.length);
        }
        if let Some((first, last)) = range {
            self.out.extend_from_slice(&accepted(first, last));
        }
        if self.granted.wrapping_sub(self.received) <= self.prefetch / 2 {
            self.granted = self.received.wrapping_add(self.prefetch);
            self.out.extend_from_slice(&credit(self.received, self.prefetch));
        }
        if !self.out.is_empty() {
            self.stream.write_all(&self.out)?;
            self.out.clear();
        }
        self.input.fill()?;
        Ok(())
    }

    fn leave(&mut self) -> io::Result<()> {
        self.stream.write_all(&goodbye())?;
        self.stream.set_read_timeout(Some(Duration::from_secs(SECONDS_TO_ANSWER)))?;
        loop {
            while let Some(found) = next_frame(self.input.octets())? {
                self.input.skip(found.length);
                if found.code as u8 == wire::CLOSE {
                    return Ok(());
                }
            }
            if !self.input.fill()? {
                return Err(broken(format!("no answer to close within {SECONDS_TO_ANSWER} s")));
            }
        }
    }
}

/// Return the octets of the data section, after any sections before it.
fn body_of(message: &[u8]) -> io::Result<&[u8]> {
    let mut reader = Reader::new(message);
    loop {
        if reader.descriptor()? == 0x75 {
            return reader.binary();
        }
        reader.value()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_behind_the_sections_before_it() {
        let mut message = List::new().boolean(true).encode(0x70);
        message.extend_from_slice(&List::new().null().string("to").encode(0x73));
        message.extend_from_slice(&[0x00, 0x53, 0x75, 0xa0, 2, 7, 8]);
        assert_eq!(body_of(&message).unwrap(), [7, 8]);
    }

    #[test]
    fn a_detach_with_an_error_is_told_from_one_without() {
        let quiet = List::new().uint(0).boolean(true).encode(wire::DETACH);
        let loud = List::new().uint(0).boolean(true).described(0x1d, List::new().symbol("amqp:no")).encode(wire::DETACH);
        for (octets, has) in [(quiet, false), (loud, true)] {
            let mut reader = Reader::new(&octets);
            reader.descriptor().unwrap();
            assert_eq!(has_error(&mut reader).unwrap(), has);
        }
    }

    #[test]
    fn a_frame_is_whole_or_not_there() {
        let octets = accepted(3, 9);
        for cut in 0..octets.len() {
            assert!(next_frame(&octets[..cut]).unwrap().is_none(), "cut at {cut}");
        }
        let found = next_frame(&octets).unwrap().unwrap();
        let fields: [Value; 4] = Reader::new(&octets[found.fields_at..]).fields().unwrap();
        assert_eq!(fields[1..4], [Value::Number(3), Value::Number(9), Value::Boolean(true)]);
    }
}
