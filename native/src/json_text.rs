//! JSON as text: its tokens, its strings, and whether it is JSON at all.

use crate::column::{Bad, Res};
use crate::numbers::{number_end, scaled, short, Short};

/// How deeply an event's objects and arrays may be nested.
const MAX_DEPTH: usize = 200;

/// A string of an event: a piece of it, or what its escapes stand for.
#[derive(Clone, Copy)]
pub enum Str {
    Plain(usize, usize),
    /// In the parser's scratch; the flag says whether half a surrogate pair is among it.
    Escaped(bool),
}

impl Str {
    #[inline(always)]
    pub fn bytes<'a>(self, at: &'a Parser) -> &'a [u8] {
        match self {
            Str::Plain(start, end) => &at.data[start..end],
            Str::Escaped(_) => at.scratch,
        }
    }

    #[inline(always)]
    pub fn text<'a>(self, at: &'a Parser) -> Res<&'a [u8]> {
        match self {
            Str::Escaped(true) => Err(Bad),
            _ => Ok(self.bytes(at)),
        }
    }
}

pub struct Parser<'a> {
    data: &'a [u8],
    position: usize,
    depth: usize,
    scratch: &'a mut Vec<u8>,
}

impl<'a> Parser<'a> {
    pub fn new(data: &'a [u8], scratch: &'a mut Vec<u8>) -> Parser<'a> {
        Parser { data, position: 0, depth: 0, scratch }
    }

    /// What wasn't read yet.
    pub fn rest(&self) -> &'a [u8] {
        &self.data[self.position..]
    }

    /// The next byte; 0 behind the last one, which no value begins with.
    #[inline(always)]
    pub fn peek(&self) -> u8 {
        self.data.get(self.position).copied().unwrap_or(0)
    }

    #[inline(always)]
    pub fn blanks(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.position += 1;
        }
    }

    #[inline(always)]
    pub fn open(&mut self, bracket: u8) -> Res<()> {
        if self.peek() != bracket || self.depth == MAX_DEPTH {
            return Err(Bad);
        }
        self.depth += 1;
        self.position += 1;
        self.blanks();
        Ok(())
    }

    /// Whether the object or array ends where it has just begun.
    #[inline(always)]
    pub fn closed(&mut self, bracket: u8) -> bool {
        let closed = self.peek() == bracket;
        if closed {
            self.position += 1;
            self.depth -= 1;
        }
        closed
    }

    /// After a value: whether the object or array ends; else there is another one behind a comma.
    #[inline(always)]
    pub fn end_or_comma(&mut self, bracket: u8) -> Res<bool> {
        self.blanks();
        let byte = self.peek();
        self.position += 1;
        if byte == b',' {
            self.blanks();
            return Ok(false);
        }
        if byte != bracket {
            return Err(Bad);
        }
        self.depth -= 1;
        Ok(true)
    }

    #[inline(always)]
    pub fn colon(&mut self) -> Res<()> {
        self.blanks();
        if self.peek() != b':' {
            return Err(Bad);
        }
        self.position += 1;
        self.blanks();
        Ok(())
    }

    /// Passes over these bytes where they come next.
    #[inline(always)]
    pub fn takes(&mut self, bytes: &[u8]) -> bool {
        let taken = self.data[self.position..].starts_with(bytes);
        self.position += if taken { bytes.len() } else { 0 };
        taken
    }

    #[inline(always)]
    pub fn word(&mut self, word: &[u8]) -> Res<()> {
        match self.takes(word) {
            true => Ok(()),
            false => Err(Bad),
        }
    }

    #[inline]
    pub fn string(&mut self) -> Res<Str> {
        if self.peek() != b'"' {
            return Err(Bad);
        }
        let start = self.position + 1;
        let end = start + plain_length(&self.data[start..]);
        match self.data.get(end) {
            Some(b'"') => {
                self.position = end + 1;
                Ok(Str::Plain(start, end))
            }
            Some(b'\\') => self.escaped(start, end),
            _ => Err(Bad),
        }
    }

    #[cold]
    fn escaped(&mut self, start: usize, first: usize) -> Res<Str> {
        self.scratch.clear();
        self.scratch.extend_from_slice(&self.data[start..first]);
        let mut at = first;
        let mut halves = false;
        loop {
            match *self.data.get(at).ok_or(Bad)? {
                b'"' => {
                    self.position = at + 1;
                    return Ok(Str::Escaped(halves));
                }
                b'\\' => {
                    let escape = *self.data.get(at + 1).ok_or(Bad)?;
                    at += 2;
                    let plain = match escape {
                        b'"' | b'\\' | b'/' => escape,
                        b'b' => 8,
                        b'f' => 12,
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'u' => {
                            let mut code = hex(self.data, at)?;
                            at += 4;
                            if (0xd800..0xdc00).contains(&code) && self.data[at..].starts_with(b"\\u") {
                                if let Ok(low @ 0xdc00..0xe000) = hex(self.data, at + 2) {
                                    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                                    at += 6;
                                }
                            }
                            match char::from_u32(code) {
                                Some(c) => self.scratch.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                                None => {
                                    halves = true;
                                    // As Python's "surrogatepass": no text equals it.
                                    let bytes = [
                                        0xe0 | (code >> 12) as u8,
                                        0x80 | (code >> 6 & 0x3f) as u8,
                                        0x80 | (code & 0x3f) as u8,
                                    ];
                                    self.scratch.extend_from_slice(&bytes);
                                }
                            }
                            continue;
                        }
                        _ => return Err(Bad),
                    };
                    self.scratch.push(plain);
                }
                0..=0x1f => return Err(Bad),
                _ => {
                    let length = plain_length(&self.data[at..]);
                    self.scratch.extend_from_slice(&self.data[at..at + length]);
                    at += length;
                }
            }
        }
    }

    /// A number as it is written.
    #[inline]
    pub fn literal(&mut self) -> Res<&'a [u8]> {
        let start = self.position;
        self.position = number_end(self.data, start)?;
        Ok(&self.data[start..self.position])
    }

    #[inline]
    pub fn integer(&mut self) -> Res<i64> {
        if let Some(Short { value, fraction: 0, end }) = short(self.data, self.position) {
            self.position = end;
            return Ok(value);
        }
        i64::try_from(scaled(self.literal()?, 0, 10i128.pow(20))?).map_err(|_| Bad)
    }

    /// A number times 10^scale, if that is a whole number below the bound.
    #[inline]
    pub fn decimal(&mut self, scale: i32, bound: i128) -> Res<i128> {
        if let Some(found) = short(self.data, self.position) {
            if let Some(value) = found.scaled(scale).filter(|value| value.abs() < bound) {
                self.position = found.end;
                return Ok(value);
            }
        }
        scaled(self.literal()?, scale, bound)
    }

    #[inline]
    pub fn float(&mut self) -> Res<f64> {
        if self.peek() == b'"' {
            let found = self.string()?;
            return match found.bytes(self) {
                b"NaN" => Ok(f64::NAN),
                b"Infinity" => Ok(f64::INFINITY),
                b"-Infinity" => Ok(f64::NEG_INFINITY),
                _ => Err(Bad),
            };
        }
        let literal = self.literal()?;
        // Safe because a number's characters are ASCII.
        let value: f64 = unsafe { std::str::from_utf8_unchecked(literal) }.parse().map_err(|_| Bad)?;
        if value.is_infinite() {
            return Err(Bad);
        }
        Ok(value)
    }

    /// Passes over a value, checking that it is one.
    pub fn skip(&mut self) -> Res<()> {
        match self.peek() {
            b'"' => self.string().map(|_| ()),
            b'{' => {
                self.open(b'{')?;
                if self.closed(b'}') {
                    return Ok(());
                }
                loop {
                    self.string()?;
                    self.colon()?;
                    self.skip()?;
                    if self.end_or_comma(b'}')? {
                        return Ok(());
                    }
                }
            }
            b'[' => {
                self.open(b'[')?;
                if self.closed(b']') {
                    return Ok(());
                }
                loop {
                    self.skip()?;
                    if self.end_or_comma(b']')? {
                        return Ok(());
                    }
                }
            }
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.literal().map(|_| ()),
        }
    }

    /// Copies a value without blanks, its strings escaped as little as can be, numbers as they are written.
    pub fn copy(&mut self, out: &mut Vec<u8>) -> Res<()> {
        match self.peek() {
            b'"' => {
                let found = self.string()?;
                write_string(found.text(self)?, out);
                Ok(())
            }
            b'{' => {
                self.open(b'{')?;
                out.push(b'{');
                let mut names: Vec<Vec<u8>> = vec![];
                if !self.closed(b'}') {
                    loop {
                        let name = self.string()?.text(self)?.to_vec();
                        if !names.is_empty() {
                            out.push(b',');
                        }
                        // Which value counts then, the plain codec tells.
                        if names.contains(&name) {
                            return Err(Bad);
                        }
                        write_string(&name, out);
                        names.push(name);
                        self.colon()?;
                        out.push(b':');
                        self.copy(out)?;
                        if self.end_or_comma(b'}')? {
                            break;
                        }
                    }
                }
                out.push(b'}');
                Ok(())
            }
            b'[' => {
                self.open(b'[')?;
                out.push(b'[');
                if !self.closed(b']') {
                    loop {
                        self.copy(out)?;
                        if self.end_or_comma(b']')? {
                            break;
                        }
                        out.push(b',');
                    }
                }
                out.push(b']');
                Ok(())
            }
            _ => {
                let start = self.position;
                self.skip()?;
                out.extend_from_slice(&self.data[start..self.position]);
                Ok(())
            }
        }
    }
}

/// How many bytes there are before a quote, backslash or control character.
#[inline(always)]
fn plain_length(data: &[u8]) -> usize {
    const ONES: u64 = 0x0101010101010101;
    const HIGHS: u64 = 0x8080808080808080;
    let mut at = 0;
    while let Some(word) = data.get(at..at + 8) {
        let word = u64::from_le_bytes([word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]]);
        let zero = |x: u64| x.wrapping_sub(ONES) & !x & HIGHS;
        // Only the first mark is exact, and only the first one counts.
        let marks = zero(word ^ (ONES * b'"' as u64))
            | zero(word ^ (ONES * b'\\' as u64))
            | word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        if marks != 0 {
            return at + (marks.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at + data[at..].iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)).unwrap_or(data.len() - at)
}

fn hex(data: &[u8], at: usize) -> Res<u32> {
    let digits = data.get(at..at + 4).ok_or(Bad)?;
    digits.iter().try_fold(0, |value, digit| Ok(value << 4 | (*digit as char).to_digit(16).ok_or(Bad)?))
}

/// Appends what a base64 text stands for. It must be padded, and of the standard alphabet.
pub fn base64(text: &[u8], out: &mut Vec<u8>) -> Res<()> {
    if !text.len().is_multiple_of(4) {
        return Err(Bad);
    }
    for (i, four) in text.chunks_exact(4).enumerate() {
        let last = (i + 1) * 4 == text.len();
        let padding = match four {
            [_, _, b'=', b'='] if last => 2,
            [_, _, _, b'='] if last => 1,
            _ => 0,
        };
        let mut bits = 0u32;
        for byte in &four[..4 - padding] {
            let value = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return Err(Bad),
            };
            bits = bits << 6 | u32::from(value);
        }
        bits <<= 6 * padding;
        out.extend_from_slice(&bits.to_be_bytes()[1..4 - padding]);
    }
    Ok(())
}

/// Writes a string with its quotes.
pub fn write_string(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut at = 0;
    loop {
        let length = plain_length(&value[at..]);
        out.extend_from_slice(&value[at..at + length]);
        at += length;
        let Some(byte) = value.get(at) else { break };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        at += 1;
    }
    out.push(b'"');
}

/// Whether a text is one JSON value, with nothing but blanks around it.
pub fn is_value(text: &[u8]) -> bool {
    let mut scratch = vec![];
    let mut at = Parser::new(text, &mut scratch);
    at.blanks();
    let found = at.skip().is_ok();
    at.blanks();
    found && at.rest().is_empty()
}
