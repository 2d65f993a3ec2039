//! Avro datums into columns, by a plan that resolves the writer's schema to the table's.

use serde_json::Value;

use crate::avro_wire::Cursor;
use crate::column::{Bad, Col, Data, Res};
use crate::plan::{get, list, number, text};

/// What to do with a value as it was written.
pub enum Node {
    Null,
    Number {
        of_int: bool,
        factor: i64,
    },
    Bool,
    Single,
    Double,
    Bytes,
    Text,
    Fixed(usize),
    Decimal(Box<Decimal>),
    Enum(Vec<Option<Vec<u8>>>),
    Refused,
    Union(Vec<Node>),
    /// A union of null, which is the branch of that number, and one type.
    Optional(u8, Box<Node>),
    /// A value of a union of several types: in one field of a struct, with the others null.
    Member(usize, Box<Node>),
    Array(Box<Node>, usize),
    Map(Box<Node>, usize),
    Record(Record),
    Skip(Simple),
    /// A union of null, which is the branch of that number, and one type, to be skipped.
    SkipOptional(u8, Simple),
    SkipUnion(Vec<Node>),
    SkipBlocks(Vec<Node>, usize),
    SkipRecord(Vec<Node>),
}

/// A value that is skipped without looking into it.
#[derive(Clone, Copy)]
pub enum Simple {
    Nothing,
    Number,
    Bytes,
    Fixed(usize),
}

/// How a decimal's unscaled value becomes the column's.
pub struct Decimal {
    size: Option<usize>,
    up: i128,
    down: i128,
    bound: Option<i128>,
}

/// A record's fields in the writer's order, and values for fields that the writer doesn't have.
pub struct Record {
    fields: Vec<(Option<usize>, Node)>,
    defaults: Vec<(usize, Node, Vec<u8>)>,
}

impl Record {
    pub fn parse(value: &Value) -> Result<Record, String> {
        let mut fields = vec![];
        for field in list(value, "fields")? {
            fields.push((field[0].as_u64().map(|i| i as usize), Node::parse(&field[1])?));
        }
        let mut defaults = vec![];
        for field in list(value, "defaults")? {
            let bytes = list(field, "bytes")?.iter().map(|b| b.as_u64().unwrap_or(0) as u8).collect();
            defaults.push((number(field, "column")? as usize, Node::parse(get(field, "node")?)?, bytes));
        }
        Ok(Record { fields, defaults })
    }

    /// Reads a record into columns of the table's record.
    #[inline]
    pub fn read(&self, columns: &mut [Col], at: &mut Cursor) -> Res<()> {
        // A cursor of its own, and none of the calls below takes its address: so it stays in registers.
        let mut here = Cursor::new(at.rest);
        for (column, node) in &self.fields {
            match column {
                Some(i) => node.read_quickly(&mut columns[*i], &mut here)?,
                None => node.skip_quickly(&mut here)?,
            }
        }
        at.rest = here.rest;
        for (i, node, bytes) in &self.defaults {
            node.read(&mut columns[*i], &mut Cursor::new(bytes))?;
        }
        Ok(())
    }
}

impl Node {
    pub fn parse(value: &Value) -> Result<Node, String> {
        let all = |key: &str| list(value, key)?.iter().map(Node::parse).collect::<Result<Vec<_>, _>>();
        Ok(match text(value, "kind")? {
            "null" => Node::Null,
            "number" => {
                Node::Number { of_int: get(value, "int")? == &Value::Bool(true), factor: number(value, "factor")? }
            }
            "boolean" => Node::Bool,
            "float" => Node::Single,
            "double" => Node::Double,
            "bytes" => Node::Bytes,
            "text" => Node::Text,
            "fixed" => Node::Fixed(number(value, "size")? as usize),
            "decimal" => {
                let (written, scale) = (number(value, "written")? as u32, number(value, "scale")? as u32);
                let digits = (number(value, "precision")? as u32).saturating_sub(scale) + written;
                Node::Decimal(Box::new(Decimal {
                    size: get(value, "size")?.as_u64().map(|n| n as usize),
                    up: 10i128.pow(scale.saturating_sub(written)),
                    down: 10i128.checked_pow(written.saturating_sub(scale)).ok_or("a scale of more than 38 digits")?,
                    bound: 10i128.checked_pow(digits),
                }))
            }
            "enum" => {
                Node::Enum(list(value, "symbols")?.iter().map(|s| s.as_str().map(|s| s.as_bytes().to_vec())).collect())
            }
            "refused" => Node::Refused,
            "union" => {
                let mut branches = all("of")?;
                match branches.as_slice() {
                    [Node::Null, _] => Node::Optional(0, Box::new(branches.remove(1))),
                    [_, Node::Null] => Node::Optional(1, Box::new(branches.remove(0))),
                    _ => Node::Union(branches),
                }
            }
            "member" => Node::Member(number(value, "index")? as usize, Box::new(Node::parse(get(value, "of")?)?)),
            "array" => Node::Array(Box::new(Node::parse(get(value, "item")?)?), number(value, "least")? as usize),
            "map" => Node::Map(Box::new(Node::parse(get(value, "value")?)?), number(value, "least")? as usize),
            "record" => Node::Record(Record::parse(value)?),
            "skip-nothing" => Node::Skip(Simple::Nothing),
            "skip-number" => Node::Skip(Simple::Number),
            "skip-bytes" => Node::Skip(Simple::Bytes),
            "skip-fixed" => Node::Skip(Simple::Fixed(number(value, "size")? as usize)),
            "skip-union" => {
                let branches = all("of")?;
                match branches.as_slice() {
                    [Node::Skip(Simple::Nothing), Node::Skip(other)] => Node::SkipOptional(0, *other),
                    [Node::Skip(other), Node::Skip(Simple::Nothing)] => Node::SkipOptional(1, *other),
                    _ => Node::SkipUnion(branches),
                }
            }
            "skip-blocks" => Node::SkipBlocks(all("of")?, number(value, "least")? as usize),
            "skip-record" => Node::SkipRecord(all("of")?),
            other => return Err(format!("no plan of kind {other}")),
        })
    }

    /// Reads the most frequent types in place, others by a call.
    #[inline(always)]
    fn read_quickly(&self, column: &mut Col, at: &mut Cursor) -> Res<()> {
        match self {
            Node::Optional(null, node) => {
                if at.present(*null)? {
                    return node.read_plainly(column, at);
                }
                column.push_null();
                Ok(())
            }
            other => other.read_plainly(column, at),
        }
    }

    #[inline(always)]
    fn read_plainly(&self, column: &mut Col, at: &mut Cursor) -> Res<()> {
        match self {
            Node::Number { of_int, factor: 1 } => {
                let value = at.varint()?;
                if *of_int && i32::try_from(value).is_err() {
                    return Err(Bad);
                }
                column.push_number(value)
            }
            Node::Double => column.push_float(f64::from_le_bytes(at.take(8)?.try_into().map_err(|_| Bad)?)),
            Node::Text => text_into(column, at),
            other => at.called(|at| other.read(column, at)),
        }
    }

    #[inline(never)]
    fn read(&self, column: &mut Col, at: &mut Cursor) -> Res<()> {
        match self {
            Node::Null => {
                column.push_null();
                Ok(())
            }
            Node::Number { of_int, factor } => {
                let mut value = at.varint()?;
                if *of_int && i32::try_from(value).is_err() {
                    return Err(Bad);
                }
                if *factor != 1 {
                    value = value.checked_mul(*factor).ok_or(Bad)?;
                }
                column.push_number(value)
            }
            Node::Bool => match at.take(1)?[0] {
                byte @ (0 | 1) => column.push_bool(byte == 1),
                _ => Err(Bad),
            },
            Node::Single => column.push_single(f32::from_le_bytes(at.take(4)?.try_into().map_err(|_| Bad)?)),
            Node::Double => column.push_float(f64::from_le_bytes(at.take(8)?.try_into().map_err(|_| Bad)?)),
            Node::Bytes => column.push_bytes(at.sized()?),
            Node::Text => text_into(column, at),
            Node::Fixed(size) => column.push_bytes(at.take(*size)?),
            Node::Decimal(plan) => {
                let Decimal { size, up, down, bound } = plan.as_ref();
                let digits = match size {
                    Some(size) => at.take(*size)?,
                    None => at.sized()?,
                };
                let value = signed(digits)?;
                if bound.is_some_and(|bound| value.unsigned_abs() >= bound.unsigned_abs()) || value % down != 0 {
                    return Err(Bad);
                }
                column.push_decimal(value / down * up)
            }
            Node::Enum(symbols) => {
                let index = usize::try_from(at.varint()?).map_err(|_| Bad)?;
                column.push_bytes(symbols.get(index).and_then(Option::as_ref).ok_or(Bad)?)
            }
            Node::Refused => Err(Bad),
            Node::Union(branches) => {
                let index = usize::try_from(at.varint()?).map_err(|_| Bad)?;
                branches.get(index).ok_or(Bad)?.read(column, at)
            }
            Node::Optional(null, node) => {
                if at.present(*null)? {
                    return node.read(column, at);
                }
                column.push_null();
                Ok(())
            }
            Node::Member(index, node) => {
                let Data::Struct(_, children) = &mut column.data else { return Err(Bad) };
                for (i, child) in children.iter_mut().enumerate() {
                    if i == *index {
                        node.read(child, at)?;
                    } else {
                        child.push_null();
                    }
                }
                column.close_struct()
            }
            Node::Array(item, least) => {
                let Data::List(_, items) = &mut column.data else { return Err(Bad) };
                loop {
                    let count = at.block(*least)?;
                    if count == 0 {
                        break;
                    }
                    for _ in 0..count {
                        item.read(items, at)?;
                    }
                }
                column.close_list()
            }
            Node::Map(value, least) => {
                let Data::Map(_, keys, values) = &mut column.data else { return Err(Bad) };
                loop {
                    let count = at.block(*least)?;
                    if count == 0 {
                        break;
                    }
                    for _ in 0..count {
                        let key = at.sized()?;
                        check_text(key)?;
                        keys.push_bytes(key)?;
                        value.read(values, at)?;
                    }
                }
                column.close_list()
            }
            Node::Record(record) => {
                let Data::Struct(_, children) = &mut column.data else { return Err(Bad) };
                record.read(children, at)?;
                column.close_struct()
            }
            _ => Err(Bad),
        }
    }

    #[inline(always)]
    fn skip_quickly(&self, at: &mut Cursor) -> Res<()> {
        match self {
            Node::Skip(simple) => simple.skip(at),
            Node::SkipOptional(null, simple) => {
                if at.present(*null)? {
                    return simple.skip(at);
                }
                Ok(())
            }
            other => at.called(|at| other.skip(at)),
        }
    }

    #[inline(never)]
    fn skip(&self, at: &mut Cursor) -> Res<()> {
        match self {
            Node::Skip(_) | Node::SkipOptional(_, _) => self.skip_quickly(at),
            Node::SkipUnion(branches) => {
                let index = usize::try_from(at.varint()?).map_err(|_| Bad)?;
                branches.get(index).ok_or(Bad)?.skip(at)
            }
            Node::SkipBlocks(items, least) => loop {
                let count = at.block(*least)?;
                if count == 0 {
                    return Ok(());
                }
                for _ in 0..count {
                    for item in items {
                        item.skip(at)?;
                    }
                }
            },
            Node::SkipRecord(fields) => fields.iter().try_for_each(|field| field.skip(at)),
            _ => Err(Bad),
        }
    }
}

impl Simple {
    #[inline(always)]
    fn skip(self, at: &mut Cursor) -> Res<()> {
        match self {
            Simple::Nothing => Ok(()),
            Simple::Number => at.skip_varint(),
            Simple::Bytes => at.sized().map(|_| ()),
            Simple::Fixed(size) => at.take(size).map(|_| ()),
        }
    }
}

/// Reads a string.
#[inline(always)]
fn text_into(column: &mut Col, at: &mut Cursor) -> Res<()> {
    let size = usize::try_from(at.varint()?).map_err(|_| Bad)?;
    if let (0..=16, Some(chunk)) = (size, at.rest.first_chunk::<16>()) {
        let marks = u128::from_le_bytes(*chunk) & 0x8080_8080_8080_8080_8080_8080_8080_8080;
        // Of the marks those count that lie within the string.
        if marks.trailing_zeros() as usize >= 8 * size {
            at.rest = &at.rest[size..];
            return column.push_short(chunk, size);
        }
    }
    let value = at.take(size)?;
    check_text(value)?;
    column.push_bytes(value)
}

#[inline(always)]
pub fn check_text(value: &[u8]) -> Res<()> {
    // Most texts are short and plain.
    if value.len() <= 16 && value.is_ascii() {
        return Ok(());
    }
    simdutf8::basic::from_utf8(value).map(|_| ()).map_err(|_| Bad)
}

/// Big-endian two's complement of any length, if 16 bytes hold the value.
#[inline]
fn signed(digits: &[u8]) -> Res<i128> {
    let first = *digits.first().ok_or(Bad)?;
    let fill = if first >= 0x80 { 0xff } else { 0 };
    let low = if digits.len() > 16 {
        let (high, low) = digits.split_at(digits.len() - 16);
        if high.iter().any(|byte| *byte != fill) || (low[0] ^ fill) >= 0x80 {
            return Err(Bad);
        }
        low
    } else {
        digits
    };
    let mut value = if fill == 0 { 0i128 } else { -1 };
    for byte in low {
        value = value << 8 | i128::from(*byte);
    }
    Ok(value)
}
