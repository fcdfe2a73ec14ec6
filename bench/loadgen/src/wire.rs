//! The types and frames of AMQP 1.0 that a load needs (parts 1 and 2.3).

use crate::link::broken;
use std::io;

pub const OPEN: u8 = 0x10;
pub const BEGIN: u8 = 0x11;
pub const ATTACH: u8 = 0x12;
pub const FLOW: u8 = 0x13;
pub const TRANSFER: u8 = 0x14;
pub const DISPOSITION: u8 = 0x15;
pub const DETACH: u8 = 0x16;
pub const END: u8 = 0x17;
pub const CLOSE: u8 = 0x18;
pub const SASL_INIT: u8 = 0x41;
pub const SASL_OUTCOME: u8 = 0x44;

/// A list under construction: a described performative, terminus or state.
pub struct List {
    octets: Vec<u8>,
    count: u32,
}

impl List {
    pub fn new() -> List {
        List { octets: Vec::new(), count: 0 }
    }

    fn add(mut self, octets: &[u8]) -> List {
        self.octets.extend_from_slice(octets);
        self.count += 1;
        self
    }

    pub fn null(self) -> List {
        self.add(&[0x40])
    }

    pub fn boolean(self, value: bool) -> List {
        self.add(&[if value { 0x41 } else { 0x42 }])
    }

    pub fn ubyte(self, value: u8) -> List {
        self.add(&[0x50, value])
    }

    pub fn ushort(self, value: u16) -> List {
        self.add(&[&[0x60][..], &value.to_be_bytes()].concat())
    }

    pub fn uint(self, value: u32) -> List {
        match value {
            0 => self.add(&[0x43]),
            1..=255 => self.add(&[0x52, value as u8]),
            _ => self.wide_uint(value),
        }
    }

    /// A uint whose octets can be patched.
    pub fn wide_uint(self, value: u32) -> List {
        self.add(&[&[0x70][..], &value.to_be_bytes()].concat())
    }

    pub fn string(self, value: &str) -> List {
        if value.len() < 256 {
            return self.add(&[&[0xa1, value.len() as u8][..], value.as_bytes()].concat());
        }
        self.add(&[&[0xb1][..], &(value.len() as u32).to_be_bytes(), value.as_bytes()].concat())
    }

    pub fn symbol(self, value: &str) -> List {
        if value.len() < 256 {
            return self.add(&[&[0xa3, value.len() as u8][..], value.as_bytes()].concat());
        }
        self.add(&[&[0xb3][..], &(value.len() as u32).to_be_bytes(), value.as_bytes()].concat())
    }

    /// At most 255 octets.
    pub fn binary(self, value: &[u8]) -> List {
        self.add(&[&[0xa0, value.len() as u8][..], value].concat())
    }

    pub fn described(self, code: u8, list: List) -> List {
        let octets = list.encode(code);
        self.add(&octets)
    }

    pub fn encode(self, code: u8) -> Vec<u8> {
        let descriptor = [0x00, 0x53, code];
        if self.count == 0 {
            return [&descriptor[..], &[0x45]].concat();
        }
        if self.octets.len() < 255 {
            return [&descriptor[..], &[0xc0, self.octets.len() as u8 + 1, self.count as u8], &self.octets].concat();
        }
        let size = (self.octets.len() + 4) as u32;
        [&descriptor[..], &[0xd0], &size.to_be_bytes(), &self.count.to_be_bytes(), &self.octets].concat()
    }
}

/// Return a frame of channel 0; kind: 0 AMQP, 1 SASL.
pub fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    [&((body.len() + 8) as u32).to_be_bytes()[..], &[2, kind, 0, 0], body].concat()
}

/// One value of a received list, as far as it is used.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    Number(u64),
    Boolean(bool),
    Other,
}

/// A reader of encoded values.
pub struct Reader<'a> {
    octets: &'a [u8],
    pub at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(octets: &'a [u8]) -> Reader<'a> {
        Reader { octets, at: 0 }
    }

    fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let part = self.octets.get(self.at..self.at + count).ok_or_else(|| broken("a value is cut off".into()))?;
        self.at += count;
        Ok(part)
    }

    fn number(&mut self, count: usize) -> io::Result<u64> {
        Ok(self.take(count)?.iter().fold(0, |value, octet| value << 8 | u64::from(*octet)))
    }

    /// Return the code of a descriptor; the described value follows.
    pub fn descriptor(&mut self) -> io::Result<u64> {
        if self.take(1)? != [0x00] {
            return Err(broken("a described type was expected".into()));
        }
        match self.value()? {
            Value::Number(code) => Ok(code),
            _ => Err(broken("a descriptor that is not a number".into())),
        }
    }

    /// Enter a list; return how many values it has.
    pub fn list(&mut self) -> io::Result<usize> {
        match self.number(1)? {
            0x45 => Ok(0),
            0xc0 => {
                self.take(1)?;
                Ok(self.number(1)? as usize)
            }
            0xd0 => {
                self.take(4)?;
                Ok(self.number(4)? as usize)
            }
            other => Err(broken(format!("{other:#04x} is not a list"))),
        }
    }

    /// Enter a binary; return its octets.
    pub fn binary(&mut self) -> io::Result<&'a [u8]> {
        let size = match self.number(1)? {
            0xa0 => self.number(1)?,
            0xb0 => self.number(4)?,
            other => return Err(broken(format!("{other:#04x} is not a binary"))),
        };
        self.take(size as usize)
    }

    /// Read one value of any type.
    pub fn value(&mut self) -> io::Result<Value> {
        let code = self.number(1)? as u8;
        let size = match code {
            0x00 => {
                self.value()?;
                return self.value();
            }
            0x41 => return Ok(Value::Boolean(true)),
            0x42 => return Ok(Value::Boolean(false)),
            0x43 | 0x44 => return Ok(Value::Number(0)),
            0x56 => return Ok(Value::Boolean(self.number(1)? == 1)),
            0x50 | 0x52 | 0x53 => return Ok(Value::Number(self.number(1)?)),
            0x60 => return Ok(Value::Number(self.number(2)?)),
            0x70 => return Ok(Value::Number(self.number(4)?)),
            0x80 => return Ok(Value::Number(self.number(8)?)),
            // The upper half of the code gives the width of a value, or of its size (1.2).
            _ => match code >> 4 {
                0x4 => 0,
                0x5 => 1,
                0x6 => 2,
                0x7 => 4,
                0x8 => 8,
                0x9 => 16,
                0xa | 0xc | 0xe => self.number(1)? as usize,
                0xb | 0xd | 0xf => self.number(4)? as usize,
                _ => return Err(broken(format!("unknown type {code:#04x}"))),
            },
        };
        self.take(size)?;
        Ok(Value::Other)
    }

    /// Read the first `COUNT` values of a list that may have fewer.
    pub fn fields<const COUNT: usize>(&mut self) -> io::Result<[Value; COUNT]> {
        let mut fields = [Value::Other; COUNT];
        let there = self.list()?;
        for index in 0..there {
            let value = self.value()?;
            if index < COUNT {
                fields[index] = value;
            }
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_read() {
        let list = List::new().null().boolean(true).ubyte(9).ushort(300).uint(70_000).string("a").symbol("b");
        let octets = list.described(0x24, List::new()).uint(1).encode(TRANSFER);
        let mut reader = Reader::new(&octets);
        assert_eq!(reader.descriptor().unwrap(), u64::from(TRANSFER));
        let fields: [Value; 9] = reader.fields().unwrap();
        assert_eq!(fields[1..5], [Value::Boolean(true), Value::Number(9), Value::Number(300), Value::Number(70_000)]);
        assert_eq!(fields[8], Value::Number(1));
        assert_eq!(reader.at, octets.len());
    }

    #[test]
    fn a_value_that_is_cut_off_is_an_error() {
        let octets = List::new().string("abc").encode(OPEN);
        for cut in 0..octets.len() {
            let mut reader = Reader::new(&octets[..cut]);
            assert!(reader.descriptor().and_then(|_| reader.fields::<1>()).is_err(), "cut at {cut}");
        }
    }
}
