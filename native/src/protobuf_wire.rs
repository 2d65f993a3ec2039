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
                let tag = self.varint()?;
                if tag >> 3 == 0 || tag > u64::from(u32::MAX) {
                    return Err(Bad);
                }
                if tag & 7 == 4 {
                    return if tag >> 3 == number { Ok(()) } else { Err(Bad) };
                }
                self.skip(tag >> 3, (tag & 7) as u8, depth + 1)?;
            },
            _ => Err(Bad),
        }
    }
}
