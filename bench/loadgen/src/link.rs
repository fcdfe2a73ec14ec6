//! The parts of a protocol for the run: producers, the reader of their confirmations, consumers.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::sync::atomic::AtomicU64;

/// The progress of a producer: `confirmed` messages, and how many it may send in all (AMQP's credit).
pub struct Progress {
    pub confirmed: AtomicU64,
    pub allowed: AtomicU64,
}

pub trait Producer: Send {
    /// Encode one message after those that are not written yet.
    fn push(&mut self, sequence: u64, sent_ns: u64);
    /// Write the encoded messages.
    fn flush(&mut self) -> io::Result<()>;
    /// Leave in order; the peer's answer, which ends the reader of confirmations, confirms all messages.
    fn leave(&mut self) -> io::Result<()>;
}

pub trait Confirmations: Send {
    /// Wait for octets of the peer and update `progress`; false once the peer has answered `leave`.
    fn read(&mut self, progress: &Progress) -> io::Result<bool>;
}

pub trait Consumer: Send {
    /// Wait a short time for octets of the peer; hand each body over, then acknowledge by the options.
    fn read(&mut self, each: &mut dyn FnMut(&[u8])) -> io::Result<()>;
    fn leave(&mut self) -> io::Result<()>;
}

pub fn broken(text: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}

/// Octets of a socket, from which whole frames are taken in place.
pub struct Input {
    stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

const READ_BYTES: usize = 1 << 18;

impl Input {
    pub fn new(stream: TcpStream) -> Input {
        Input { stream, buffer: vec![0; 2 * READ_BYTES], start: 0, end: 0 }
    }

    /// Read once; false if the time-out of the socket ran out.
    pub fn fill(&mut self) -> io::Result<bool> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() - self.end < READ_BYTES {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        match self.stream.read(&mut self.buffer[self.end..]) {
            Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "the peer closed the connection")),
            Ok(count) => {
                self.end += count;
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn octets(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub fn skip(&mut self, count: usize) {
        self.start += count;
    }
}
