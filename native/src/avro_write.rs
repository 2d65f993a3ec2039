//! Rows as Avro datums.

use std::collections::HashMap;

use serde_json::Value;

use crate::column::{Bad, Res};
use crate::plan::{get, list, number, text};
use crate::source::Source;

pub enum Node {
    /// Of values that are never null.
    Plain(Box<Kind>),
    /// The branches' marks, and the value's type.
    Union { value: u8, null: Option<u8>, kind: Box<Kind> },
}

pub enum Kind {
    /// What a number is divided by, without a rest.
    Number {
        divisor: i64,
        int: bool,
    },
    Bool,
    Single,
    Double,
    Bytes,
    Fixed(usize),
    Decimal(Option<usize>),
    Enum(HashMap<Vec<u8>, i64>),
    Array(Node),
    Map(Node),
    Record(Vec<(usize, Node)>),
}

pub fn fields(value: &Value) -> Result<Vec<(usize, Node)>, String> {
    list(value, "fields")?
        .iter()
        .map(|field| Ok((number(field, "column")? as usize, Node::parse(get(field, "node")?)?)))
        .collect()
}

#[inline]
pub fn write_fields(fields: &[(usize, Node)], columns: &[Source], row: usize, out: &mut Vec<u8>) -> Res<()> {
    fields.iter().try_for_each(|(column, node)| node.write(&columns[*column], row, out))
}

impl Node {
    fn parse(value: &Value) -> Result<Node, String> {
        let kind = Box::new(Kind::parse(value)?);
        Ok(match value.get("value").and_then(Value::as_u64) {
            None => Node::Plain(kind),
            Some(mark) => {
                Node::Union { value: mark as u8, null: get(value, "null")?.as_u64().map(|mark| mark as u8), kind }
            }
        })
    }

    #[inline(always)]
    fn write(&self, source: &Source, row: usize, out: &mut Vec<u8>) -> Res<()> {
        match self {
            Node::Plain(_) if source.is_null(row) => Err(Bad),
            Node::Plain(kind) => kind.write(source, row, out),
            Node::Union { null, .. } if source.is_null(row) => {
                out.push(null.ok_or(Bad)?);
                Ok(())
            }
            Node::Union { value, kind, .. } => {
                out.push(*value);
                kind.write(source, row, out)
            }
        }
    }
}

impl Kind {
    fn parse(value: &Value) -> Result<Kind, String> {
        Ok(match text(value, "kind")? {
            "number" => {
                Kind::Number { divisor: number(value, "divisor")?, int: get(value, "int")? == &Value::Bool(true) }
            }
            "boolean" => Kind::Bool,
            "float" => Kind::Single,
            "double" => Kind::Double,
            "bytes" => Kind::Bytes,
            "fixed" => Kind::Fixed(number(value, "size")? as usize),
            "decimal" => Kind::Decimal(get(value, "size")?.as_u64().map(|size| size as usize)),
            "enum" => Kind::Enum(
                list(value, "symbols")?
                    .iter()
                    .enumerate()
                    .map(|(i, symbol)| (symbol.as_str().unwrap_or("").as_bytes().to_vec(), i as i64))
                    .collect(),
            ),
            "array" => Kind::Array(Node::parse(get(value, "of")?)?),
            "map" => Kind::Map(Node::parse(get(value, "of")?)?),
            "record" => Kind::Record(fields(value)?),
            other => return Err(format!("no plan of kind {other}")),
        })
    }

    #[inline]
    fn write(&self, source: &Source, row: usize, out: &mut Vec<u8>) -> Res<()> {
        match self {
            Kind::Number { divisor, int } => {
                let mut value = source.number(row)?;
                if *divisor != 1 {
                    if value % divisor != 0 {
                        return Err(Bad);
                    }
                    value /= divisor;
                }
                if *int && i32::try_from(value).is_err() {
                    return Err(Bad);
                }
                varint(value, out);
            }
            Kind::Bool => out.push(source.flag(row)?.into()),
            Kind::Single => out.extend_from_slice(&source.single(row)?.to_le_bytes()),
            Kind::Double => out.extend_from_slice(&source.double(row)?.to_le_bytes()),
            Kind::Bytes => {
                let value = source.bytes(row)?;
                varint(value.len() as i64, out);
                out.extend_from_slice(value);
            }
            Kind::Fixed(size) => {
                let value = source.bytes(row)?;
                if value.len() != *size {
                    return Err(Bad);
                }
                out.extend_from_slice(value);
            }
            Kind::Decimal(size) => {
                let value = source.decimal(row)?;
                let bits = 128 - if value < 0 { value.leading_ones() } else { value.leading_zeros() };
                let needed = bits as usize / 8 + 1;
                let bytes = value.to_be_bytes();
                match size {
                    None => {
                        varint(needed as i64, out);
                        out.extend_from_slice(&bytes[16 - needed..]);
                    }
                    Some(size) if needed > *size => return Err(Bad),
                    Some(size) => {
                        let fill = if value < 0 { 0xff } else { 0 };
                        out.resize(out.len() + size.saturating_sub(16), fill);
                        out.extend_from_slice(&bytes[16usize.saturating_sub(*size)..]);
                    }
                }
            }
            Kind::Enum(symbols) => varint(*symbols.get(source.bytes(row)?).ok_or(Bad)?, out),
            Kind::Array(item) => {
                let (items, range) = source.items(row)?;
                if !range.is_empty() {
                    varint(range.len() as i64, out);
                    for i in range {
                        item.write(items, i, out)?;
                    }
                }
                out.push(0);
            }
            Kind::Map(value) => {
                let (keys, values, range) = source.entries(row)?;
                if !range.is_empty() {
                    varint(range.len() as i64, out);
                    for i in range {
                        let key = keys.bytes(i)?;
                        varint(key.len() as i64, out);
                        out.extend_from_slice(key);
                        value.write(values, i, out)?;
                    }
                }
                out.push(0);
            }
            Kind::Record(fields) => write_fields(fields, source.children()?, row, out)?,
        }
        Ok(())
    }
}

#[inline(always)]
fn varint(value: i64, out: &mut Vec<u8>) {
    let mut left = ((value << 1) ^ (value >> 63)) as u64;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}
