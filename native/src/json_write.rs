//! Rows as JSON texts.

use crate::column::{Bad, Res};
use crate::json::{Node, Object};
use crate::json_text::{is_value, write_string};
use crate::source::{write_decimal, Source};
use crate::time::civil;

const MICROS_A_DAY: i64 = 86_400_000_000;

impl Object {
    #[inline]
    pub fn write(&self, columns: &[Source], row: usize, out: &mut Vec<u8>) -> Res<()> {
        out.push(b'{');
        for (i, field) in self.fields.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&field.quoted);
            field.node.write_nullable(&columns[field.column], row, out)?;
        }
        out.push(b'}');
        Ok(())
    }
}

impl Node {
    #[inline]
    fn write_nullable(&self, source: &Source, row: usize, out: &mut Vec<u8>) -> Res<()> {
        if source.is_null(row) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        self.write(source, row, out)
    }

    fn write(&self, source: &Source, row: usize, out: &mut Vec<u8>) -> Res<()> {
        match self {
            Node::Bool => out.extend_from_slice(if source.flag(row)? { b"true" } else { b"false" }),
            Node::Integer(_, _) => out.extend_from_slice(itoa::Buffer::new().format(source.number(row)?).as_bytes()),
            Node::Millis => {
                let micros = source.number(row)?;
                if micros % 1000 != 0 {
                    return Err(Bad);
                }
                out.extend_from_slice(itoa::Buffer::new().format(micros / 1000).as_bytes());
            }
            Node::Double => {
                let value = source.double(row)?;
                match value.is_finite() {
                    true => out.extend_from_slice(ryu::Buffer::new().format_finite(value).as_bytes()),
                    false => out.extend_from_slice(not_finite(value)),
                }
            }
            Node::Single => {
                let value = source.single(row)?;
                match value.is_finite() {
                    true => out.extend_from_slice(ryu::Buffer::new().format_finite(value).as_bytes()),
                    false => out.extend_from_slice(not_finite(value.into())),
                }
            }
            Node::Decimal { scale, .. } => write_decimal(source.decimal(row)?, *scale as usize, out),
            Node::Text => write_string(source.bytes(row)?, out),
            Node::Json => {
                let value = source.bytes(row)?;
                if !is_value(value) {
                    return Err(Bad);
                }
                out.extend_from_slice(value);
            }
            Node::Base64 => base64(source.bytes(row)?, out),
            Node::Date => {
                out.push(b'"');
                date(source.number(row)?, out);
                out.push(b'"');
            }
            Node::Moment { zoned } => {
                let micros = source.number(row)?;
                out.push(b'"');
                date(micros.div_euclid(MICROS_A_DAY), out);
                time(micros.rem_euclid(MICROS_A_DAY), out);
                out.extend_from_slice(if *zoned { b"Z\"" } else { b"\"" });
            }
            Node::Items { item, .. } => {
                let (items, range) = source.items(row)?;
                out.push(b'[');
                let first = range.start;
                for i in range {
                    if i > first {
                        out.push(b',');
                    }
                    item.write_nullable(items, i, out)?;
                }
                out.push(b']');
            }
            Node::Entries { value, .. } => {
                let (keys, values, range) = source.entries(row)?;
                if keys.has_twins(range.clone()) {
                    return Err(Bad);
                }
                out.push(b'{');
                let first = range.start;
                for i in range {
                    if i > first {
                        out.push(b',');
                    }
                    write_string(keys.bytes(i)?, out);
                    out.push(b':');
                    value.write_nullable(values, i, out)?;
                }
                out.push(b'}');
            }
            Node::Object(object) => object.write(source.children()?, row, out)?,
        }
        Ok(())
    }
}

fn not_finite(value: f64) -> &'static [u8] {
    match value {
        v if v.is_nan() => b"\"NaN\"",
        v if v > 0.0 => b"\"Infinity\"",
        _ => b"\"-Infinity\"",
    }
}

fn digits(value: i64, count: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + count, b'0');
    let mut left = value;
    for digit in out[start..].iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
}

fn date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil(days);
    match year {
        0..=9999 => digits(year, 4, out),
        _ => {
            out.push(if year < 0 { b'-' } else { b'+' });
            let width = year.unsigned_abs().ilog10() as usize + 1;
            digits(year.abs(), width.max(4), out);
        }
    }
    out.push(b'-');
    digits(month, 2, out);
    out.push(b'-');
    digits(day, 2, out);
}

fn time(micros: i64, out: &mut Vec<u8>) {
    let seconds = micros / 1_000_000;
    out.push(b'T');
    digits(seconds / 3600, 2, out);
    out.push(b':');
    digits(seconds / 60 % 60, 2, out);
    out.push(b':');
    digits(seconds % 60, 2, out);
    if micros % 1_000_000 != 0 {
        out.push(b'.');
        digits(micros % 1_000_000, 6, out);
    }
}

fn base64(value: &[u8], out: &mut Vec<u8>) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.push(b'"');
    for three in value.chunks(3) {
        let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for i in 0..4 {
            out.push(match i <= three.len() {
                true => ALPHABET[(bits >> (18 - 6 * i) & 63) as usize],
                false => b'=',
            });
        }
    }
    out.push(b'"');
}
