//! Protobuf's wire format: what an event is made of, whatever it means.

use crate::column::{Bad, Res};

/// How deeply unknown groups may be nested.
const MAX_GROUPS: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Varint = 0,
    Eight = 1,
    Sized = 2,
    Four = 5,
}

/// A field's number, and how its value is written: what the tag before it says.
#[inline(always)]
pub fn field_of(tag: u64) -> Res<(u64, u8)> {
    match tag >> 3 {
        0 => Err(Bad),
        _ if tag > u64::from(u32::MAX) => Err(Bad),
        number => Ok((number, (tag & 7) as u8)),
    }
}

pub struct Cursor<'a> {
    pub rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    fn take(&mut self, size: usize) -> Res<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(size).ok_or(Bad)?;
        self.rest = rest;
        Ok(head)
    }

    #[inline(always)]
    pub fn array<const N: usize>(&mut self) -> Res<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| Bad)
    }

    #[inline(always)]
    pub fn sized(&mut self) -> Res<&'a [u8]> {
        let size = usize::try_from(self.varint()?).map_err(|_| Bad)?;
        self.take(size)
    }

    #[inline(always)]
    pub fn varint(&mut self) -> Res<u64> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Res<u64> {
        let mut value = 0u64;
        for (i, byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if *byte < 0x80 {
                self.rest = &self.rest[i + 1..];
                return Ok(value);
            }
        }
        Err(Bad)
    }

    pub fn peek_varint(&self) -> Res<u64> {
        Cursor { rest: self.rest }.varint()
    }

    pub fn skip(&mut self, number: u64, wire: u8, depth: usize) -> Res<()> {
        match wire {
            0 => self.varint().map(|_| ()),
            1 => self.take(8).map(|_| ()),
            2 => self.sized().map(|_| ()),
            5 => self.take(4).map(|_| ()),
            3 if depth < MAX_GROUPS => loop {
                let (inner, wire) = field_of(self.varint()?)?;
                if wire == 4 {
                    return if inner == number { Ok(()) } else { Err(Bad) };
                }
                self.skip(inner, wire, depth + 1)?;
            },
            _ => Err(Bad),
        }
    }
}
