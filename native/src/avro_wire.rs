//! Avro's binary encoding: what a datum is made of, whatever it means.

use crate::column::{Bad, Res};

/// How many items of no bytes an array may have.
const MAX_EMPTY_ITEMS: u64 = 65536;

/// Where reading stands in a datum.
pub struct Cursor<'a> {
    pub rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn new(rest: &'a [u8]) -> Cursor<'a> {
        Cursor { rest }
    }

    /// Does what isn't compiled in place, with a copy of the cursor.
    #[inline(always)]
    pub fn called<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let mut copy = Cursor::new(self.rest);
        let made = work(&mut copy);
        self.rest = copy.rest;
        made
    }

    #[inline(always)]
    pub fn take(&mut self, size: usize) -> Res<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(size).ok_or(Bad)?;
        self.rest = rest;
        Ok(head)
    }

    #[inline(always)]
    pub fn sized(&mut self) -> Res<&'a [u8]> {
        let size = usize::try_from(self.varint()?).map_err(|_| Bad)?;
        self.take(size)
    }

    /// Reads which branch of an optional value was written: whether it isn't the one of null.
    #[inline(always)]
    pub fn present(&mut self, null: u8) -> Res<bool> {
        match self.varint()? {
            index @ (0 | 1) => Ok(index != i64::from(null)),
            _ => Err(Bad),
        }
    }

    #[inline(always)]
    pub fn varint(&mut self) -> Res<i64> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(i64::from(byte >> 1) ^ -i64::from(byte & 1))
            }
            _ => self.long_varint(),
        }
    }

    #[inline(always)]
    fn long_varint(&mut self) -> Res<i64> {
        if let Some(word) = self.rest.get(..8) {
            let word = u64::from_le_bytes(word.try_into().map_err(|_| Bad)?);
            let last = !word & 0x8080_8080_8080_8080;
            if last != 0 {
                let mut value = word & (last ^ (last - 1)) & 0x7f7f_7f7f_7f7f_7f7f;
                // Groups of seven bits move together: pairs, then fours, then all eight.
                value = (value & 0x007f_007f_007f_007f) | (value & 0x7f00_7f00_7f00_7f00) >> 1;
                value = (value & 0x0000_3fff_0000_3fff) | (value & 0x3fff_0000_3fff_0000) >> 2;
                value = (value & 0x0000_0000_0fff_ffff) | (value & 0x0fff_ffff_0000_0000) >> 4;
                self.rest = &self.rest[(last.trailing_zeros() / 8) as usize + 1..];
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        self.called(Cursor::longest_varint)
    }

    #[inline(always)]
    pub fn skip_varint(&mut self) -> Res<()> {
        if let Some(word) = self.rest.first_chunk::<8>() {
            let last = !u64::from_le_bytes(*word) & 0x8080_8080_8080_8080;
            if last != 0 {
                self.rest = &self.rest[(last.trailing_zeros() / 8) as usize + 1..];
                return Ok(());
            }
        }
        self.called(Cursor::longest_varint).map(|_| ())
    }

    #[cold]
    fn longest_varint(&mut self) -> Res<i64> {
        let mut value = 0u64;
        for (i, byte) in self.rest.iter().take(10).enumerate() {
            if i == 9 && *byte > 1 {
                return Err(Bad);
            }
            value |= u64::from(byte & 0x7f) << (7 * i);
            if *byte < 0x80 {
                self.rest = &self.rest[i + 1..];
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err(Bad)
    }

    /// A block's number of items, at least `least` bytes each.
    #[inline(always)]
    pub fn block(&mut self, least: usize) -> Res<u64> {
        let mut count = self.varint()?;
        if count < 0 {
            // The block's size in bytes follows; it is of use only to who skips it.
            self.varint()?;
            count = count.checked_neg().ok_or(Bad)?;
        }
        let room = self.rest.len().checked_div(least).map_or(MAX_EMPTY_ITEMS, |items| items as u64);
        if count as u64 > room {
            return Err(Bad);
        }
        Ok(count as u64)
    }
}
