//! JSON texts into columns, by a plan of what each value is.

use std::collections::HashMap;

use serde_json::Value;

use crate::column::{Bad, Col, Data, Res};
use crate::plan::{flag, get, list, number, text};
use crate::time;

/// How deeply an event's objects and arrays may be nested.
const MAX_DEPTH: usize = 200;

pub enum Node {
    Bool,
    /// With the range of the column's type.
    Integer(i64, i64),
    Millis,
    Double,
    Single,
    Decimal { scale: i32, bound: i128 },
    Text,
    Json,
    Base64,
    Date,
    Moment { zoned: bool },
    Items { item: Box<Node>, nullable: bool, or_base64: bool },
    Entries { value: Box<Node>, nullable: bool },
    Object(Object),
}

pub struct Object {
    pub fields: Vec<Field>,
    by_name: HashMap<Vec<u8>, usize>,
}

pub struct Field {
    name: Vec<u8>,
    /// The name as it is written, with a colon behind it.
    pub quoted: Vec<u8>,
    pub column: usize,
    nullable: bool,
    pub node: Node,
}

impl Object {
    pub fn parse(value: &Value) -> Result<Object, String> {
        let mut fields = vec![];
        for field in list(value, "fields")? {
            let name = text(field, "name")?.as_bytes().to_vec();
            let mut quoted = vec![];
            write_string(&name, &mut quoted);
            quoted.push(b':');
            fields.push(Field {
                name,
                quoted,
                column: number(field, "column")? as usize,
                nullable: flag(field, "nullable")?,
                node: Node::parse(get(field, "node")?)?,
            });
        }
        let by_name = fields.iter().enumerate().map(|(i, f)| (f.name.clone(), i)).collect();
        Ok(Object { fields, by_name })
    }

    /// Reads one event: an object, with nothing behind it but blanks and zeros.
    pub fn event(&self, columns: &mut [Col], body: &[u8], scratch: &mut Vec<u8>) -> Res<()> {
        simdutf8::basic::from_utf8(body).map_err(|_| Bad)?;
        let mut at = Parser { data: body, position: 0, depth: 0, scratch };
        at.blanks();
        let row = columns.first().map_or(0, Col::len);
        self.read(columns, row, &mut at)?;
        match body[at.position..].iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0)) {
            true => Ok(()),
            false => Err(Bad),
        }
    }

    /// Reads an object as row `row` of its columns.
    fn read(&self, columns: &mut [Col], row: usize, at: &mut Parser) -> Res<()> {
        at.open(b'{')?;
        // Which property comes next is guessed from the order of the last one; the guess is checked.
        let mut next = 0;
        let mut seen = 0;
        if !at.closed(b'}') {
            loop {
                let name = at.string()?;
                let found = match self.fields.get(next) {
                    Some(field) if name.is(&field.name, at) => Some(next),
                    _ => self.by_name.get(name.bytes(at)).copied(),
                };
                at.colon()?;
                match found {
                    Some(i) => {
                        next = i + 1;
                        let field = &self.fields[i];
                        let column = &mut columns[field.column];
                        if column.len() > row {
                            // Of a name that comes twice the last value counts.
                            column.truncate(row);
                            seen -= 1;
                        }
                        field.node.read_nullable(field.nullable, column, at)?;
                        seen += 1;
                    }
                    None => at.skip()?,
                }
                if at.end_or_comma(b'}')? {
                    break;
                }
            }
        }
        if seen < self.fields.len() {
            for field in &self.fields {
                let column = &mut columns[field.column];
                if column.len() == row {
                    if !field.nullable {
                        return Err(Bad);
                    }
                    column.push_null();
                }
            }
        }
        Ok(())
    }
}

impl Node {
    pub fn parse(value: &Value) -> Result<Node, String> {
        Ok(match text(value, "kind")? {
            "boolean" => Node::Bool,
            "tinyint" => Node::Integer(i8::MIN.into(), i8::MAX.into()),
            "smallint" => Node::Integer(i16::MIN.into(), i16::MAX.into()),
            "int" => Node::Integer(i32::MIN.into(), i32::MAX.into()),
            "bigint" => Node::Integer(i64::MIN, i64::MAX),
            "timestamp_millis" => Node::Millis,
            "double" => Node::Double,
            "float" => Node::Single,
            "decimal" => Node::Decimal {
                scale: number(value, "scale")? as i32,
                bound: 10i128.checked_pow(number(value, "precision")? as u32).ok_or("a precision of more than 38")?,
            },
            "string" => Node::Text,
            "json" => Node::Json,
            "binary" => Node::Base64,
            "date" => Node::Date,
            "timestamp" => Node::Moment { zoned: true },
            "timestamp_ntz" => Node::Moment { zoned: false },
            "items" => Node::Items {
                item: Box::new(Node::parse(get(value, "of")?)?),
                nullable: flag(value, "nullable")?,
                or_base64: text(get(value, "of")?, "kind")? == "bigint",
            },
            "entries" => Node::Entries {
                value: Box::new(Node::parse(get(value, "of")?)?),
                nullable: flag(value, "nullable")?,
            },
            "object" => Node::Object(Object::parse(value)?),
            other => return Err(format!("no plan of kind {other}")),
        })
    }

    #[inline]
    fn read_nullable(&self, nullable: bool, column: &mut Col, at: &mut Parser) -> Res<()> {
        if at.peek() == b'n' {
            at.word(b"null")?;
            if !nullable {
                return Err(Bad);
            }
            column.push_null();
            return Ok(());
        }
        self.read(column, at)
    }

    fn read(&self, column: &mut Col, at: &mut Parser) -> Res<()> {
        match self {
            Node::Bool => match at.peek() {
                b't' => at.word(b"true").and_then(|_| column.push_bool(true)),
                _ => at.word(b"false").and_then(|_| column.push_bool(false)),
            },
            Node::Integer(low, high) => {
                let value = at.integer()?;
                if value < *low || value > *high {
                    return Err(Bad);
                }
                column.push_number(value)
            }
            Node::Millis => column.push_number(at.integer()?.checked_mul(1000).ok_or(Bad)?),
            Node::Double => column.push_float(at.float()?),
            Node::Single => {
                let value = at.float()?;
                let single = value as f32;
                if single.is_infinite() && value.is_finite() {
                    return Err(Bad);
                }
                column.push_single(single)
            }
            Node::Decimal { scale, bound } => {
                let literal = match at.peek() {
                    b'"' => {
                        let found = at.string()?;
                        let bytes = found.bytes(at).to_vec();
                        if number_end(&bytes, 0)? != bytes.len() {
                            return Err(Bad);
                        }
                        return column.push_decimal(scaled(&bytes, *scale, *bound)?);
                    }
                    _ => at.literal()?,
                };
                column.push_decimal(scaled(literal, *scale, *bound)?)
            }
            Node::Text => {
                let found = at.string()?;
                column.push_bytes(found.text(at)?)
            }
            Node::Json => {
                let mut out = vec![];
                at.copy(&mut out)?;
                column.push_bytes(&out)
            }
            Node::Base64 => {
                let found = at.string()?;
                let Data::Bytes(_, data) = &mut column.data else { return Err(Bad) };
                base64(found.bytes(at), data)?;
                column.push_bytes(&[])
            }
            Node::Date => {
                let found = at.string()?;
                column.push_number(time::date(found.bytes(at)).ok_or(Bad)?.into())
            }
            Node::Moment { zoned } => {
                let found = at.string()?;
                column.push_number(time::moment(found.bytes(at), *zoned).ok_or(Bad)?)
            }
            Node::Items { item, nullable, or_base64 } => {
                let Data::List(_, items) = &mut column.data else { return Err(Bad) };
                if *or_base64 && at.peek() == b'"' {
                    // Java derives "array of integer" for byte[], and writes base64.
                    let found = at.string()?;
                    let mut bytes = vec![];
                    base64(found.bytes(at), &mut bytes)?;
                    bytes.iter().try_for_each(|byte| items.push_number(i64::from(*byte)))?;
                    return column.close_list();
                }
                at.open(b'[')?;
                if !at.closed(b']') {
                    loop {
                        item.read_nullable(*nullable, items, at)?;
                        if at.end_or_comma(b']')? {
                            break;
                        }
                    }
                }
                column.close_list()
            }
            Node::Entries { value, nullable } => {
                let Data::Map(offsets, keys, values) = &mut column.data else { return Err(Bad) };
                let first = offsets[offsets.len() - 1] as usize;
                at.open(b'{')?;
                if !at.closed(b'}') {
                    loop {
                        let name = at.string()?;
                        keys.push_bytes(name.text(at)?)?;
                        at.colon()?;
                        value.read_nullable(*nullable, values, at)?;
                        if at.end_or_comma(b'}')? {
                            break;
                        }
                    }
                }
                if has_twins(keys, first) {
                    return Err(Bad);
                }
                column.close_list()
            }
            Node::Object(object) => {
                let Data::Struct(row, children) = &mut column.data else { return Err(Bad) };
                object.read(children, *row, at)?;
                column.close_struct()
            }
        }
    }
}

/// Whether a key from `first` on comes twice. Such a map is left to the plain codec, which keeps the last value.
fn has_twins(keys: &Col, first: usize) -> bool {
    let Data::Bytes(offsets, data) = &keys.data else { return false };
    let key = |i: usize| &data[offsets[i] as usize..offsets[i + 1] as usize];
    let count = keys.len() - first;
    if count <= 16 {
        return (first..keys.len()).any(|i| (first..i).any(|j| key(i) == key(j)));
    }
    let mut seen = std::collections::HashSet::with_capacity(count);
    (first..keys.len()).any(|i| !seen.insert(key(i)))
}

/// A string of an event: a piece of it, or what its escapes stand for.
#[derive(Clone, Copy)]
enum Str {
    Plain(usize, usize),
    /// In the parser's scratch; the flag says whether half a surrogate pair is among it.
    Escaped(bool),
}

impl Str {
    #[inline(always)]
    fn bytes<'a>(self, at: &'a Parser) -> &'a [u8] {
        match self {
            Str::Plain(start, end) => &at.data[start..end],
            Str::Escaped(_) => at.scratch,
        }
    }

    #[inline(always)]
    fn text<'a>(self, at: &'a Parser) -> Res<&'a [u8]> {
        match self {
            Str::Escaped(true) => Err(Bad),
            _ => Ok(self.bytes(at)),
        }
    }

    #[inline(always)]
    fn is(self, name: &[u8], at: &Parser) -> bool {
        self.bytes(at) == name
    }
}

struct Parser<'a> {
    data: &'a [u8],
    position: usize,
    depth: usize,
    scratch: &'a mut Vec<u8>,
}

impl<'a> Parser<'a> {
    /// The next byte; 0 behind the last one, which no value begins with.
    #[inline(always)]
    fn peek(&self) -> u8 {
        self.data.get(self.position).copied().unwrap_or(0)
    }

    #[inline(always)]
    fn blanks(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.position += 1;
        }
    }

    #[inline(always)]
    fn open(&mut self, bracket: u8) -> Res<()> {
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
    fn closed(&mut self, bracket: u8) -> bool {
        let closed = self.peek() == bracket;
        if closed {
            self.position += 1;
            self.depth -= 1;
        }
        closed
    }

    /// After a value: whether the object or array ends; else there is another one behind a comma.
    #[inline(always)]
    fn end_or_comma(&mut self, bracket: u8) -> Res<bool> {
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
    fn colon(&mut self) -> Res<()> {
        self.blanks();
        if self.peek() != b':' {
            return Err(Bad);
        }
        self.position += 1;
        self.blanks();
        Ok(())
    }

    #[inline(always)]
    fn word(&mut self, word: &[u8]) -> Res<()> {
        if !self.data[self.position..].starts_with(word) {
            return Err(Bad);
        }
        self.position += word.len();
        Ok(())
    }

    #[inline]
    fn string(&mut self) -> Res<Str> {
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
                                    let bytes = [0xe0 | (code >> 12) as u8, 0x80 | (code >> 6 & 0x3f) as u8, 0x80 | (code & 0x3f) as u8];
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
    fn literal(&mut self) -> Res<&'a [u8]> {
        let start = self.position;
        self.position = number_end(self.data, start)?;
        Ok(&self.data[start..self.position])
    }

    #[inline]
    fn integer(&mut self) -> Res<i64> {
        let literal = self.literal()?;
        let negative = literal[0] == b'-';
        let digits = if negative { &literal[1..] } else { literal };
        if digits.len() <= 18 && digits.iter().all(u8::is_ascii_digit) {
            let value = digits.iter().fold(0i64, |value, digit| value * 10 + i64::from(digit - b'0'));
            return Ok(if negative { -value } else { value });
        }
        i64::try_from(scaled(literal, 0, 10i128.pow(20))?).map_err(|_| Bad)
    }

    #[inline]
    fn float(&mut self) -> Res<f64> {
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
    fn skip(&mut self) -> Res<()> {
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
    fn copy(&mut self, out: &mut Vec<u8>) -> Res<()> {
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
        let marks = zero(word ^ (ONES * b'"' as u64)) | zero(word ^ (ONES * b'\\' as u64)) | word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
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

/// Where a number that begins at `start` ends.
#[inline]
pub fn number_end(data: &[u8], start: usize) -> Res<usize> {
    let digits = |mut at: usize| {
        while data.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut at = start + usize::from(data.get(start) == Some(&b'-'));
    let whole = at;
    at = digits(at);
    if at == whole || (data[whole] == b'0' && at > whole + 1) {
        return Err(Bad);
    }
    if data.get(at) == Some(&b'.') {
        let fraction = at + 1;
        at = digits(fraction);
        if at == fraction {
            return Err(Bad);
        }
    }
    if matches!(data.get(at), Some(b'e' | b'E')) {
        let exponent = at + 1 + usize::from(matches!(data.get(at + 1), Some(b'+' | b'-')));
        at = digits(exponent);
        if at == exponent {
            return Err(Bad);
        }
    }
    Ok(at)
}

/// A number times 10^scale, if that is a whole number below the bound.
pub fn scaled(literal: &[u8], scale: i32, bound: i128) -> Res<i128> {
    let negative = literal.first() == Some(&b'-');
    let digits = &literal[usize::from(negative)..];
    let (mantissa, exponent) = match digits.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(e) => (&digits[..e], exponent(&digits[e + 1..])),
        None => (digits, 0),
    };
    let mut value = 0i128;
    let mut shift = exponent.saturating_add(i64::from(scale));
    let mut behind_point = false;
    // Zeros are counted and multiplied in only when a digit follows, so that any number of them may stand at the end.
    let mut zeros = 0u32;
    for byte in mantissa {
        match byte {
            b'.' => behind_point = true,
            digit => {
                shift -= i64::from(behind_point);
                if *digit == b'0' {
                    zeros += u32::from(value != 0);
                    continue;
                }
                let factor = 10i128.checked_pow(zeros + 1).ok_or(Bad)?;
                value = value.checked_mul(factor).and_then(|v| v.checked_add(i128::from(digit - b'0'))).ok_or(Bad)?;
                zeros = 0;
            }
        }
    }
    if value == 0 {
        return Ok(0);
    }
    shift = shift.saturating_add(i64::from(zeros));
    let factor = u32::try_from(shift).ok().and_then(|shift| 10i128.checked_pow(shift)).ok_or(Bad)?;
    let value = value.checked_mul(factor).filter(|value| *value < bound).ok_or(Bad)?;
    Ok(if negative { -value } else { value })
}

fn exponent(digits: &[u8]) -> i64 {
    let negative = digits.first() == Some(&b'-');
    let value = digits
        .iter()
        .filter(|byte| byte.is_ascii_digit())
        .fold(0i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    if negative { -value } else { value }
}

/// Appends what a base64 text stands for. It must be padded, and of the standard alphabet.
fn base64(text: &[u8], out: &mut Vec<u8>) -> Res<()> {
    if text.len() % 4 != 0 {
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
    let mut at = Parser { data: text, position: 0, depth: 0, scratch: &mut scratch };
    at.blanks();
    let found = at.skip().is_ok();
    at.blanks();
    found && at.position == text.len()
}
