//! Protobuf messages into columns, by a plan of their fields.

use std::collections::HashMap;

use serde_json::Value;

use crate::avro::check_text;
use crate::column::{Bad, Col, Data, Res};
use crate::numbers::{number_end, scaled};
use crate::plan::{flag, get, list, number, text};
use crate::protobuf_wire::{field_of, Cursor, Wire};

/// More fields than that in one message are left to the plain codec.
pub const MAX_FIELDS: usize = 256;

pub enum Kind {
    Int32,
    Int64,
    UInt32,
    UInt64,
    SInt32,
    SInt64,
    Bool,
    Fixed32,
    SFixed32,
    Fixed64,
    SFixed64,
    Float,
    Double,
    /// Whether it must be UTF-8 even where nobody wants it.
    Text(bool),
    Bytes,
    Decimal {
        scale: i32,
        bound: i128,
    },
    Enum {
        names: HashMap<i32, Vec<u8>>,
        closed: bool,
        first: Vec<u8>,
    },
    Timestamp(Box<Message>),
    /// Google's Int64Value and the like: the field within.
    Wrapper(Box<Message>),
    Message(Box<Message>),
}

pub enum Label {
    One { presence: bool, nullable: bool },
    Many,
    Map,
}

pub struct Field {
    pub number: u64,
    /// Where it goes; None where nobody wants it.
    pub column: Option<usize>,
    pub label: Label,
    pub kind: Kind,
    pub wire: Wire,
    /// Whether its items are written one behind the other under one tag.
    pub packed: bool,
    /// Other members of its oneof.
    pub rivals: Vec<usize>,
}

pub struct Message {
    pub fields: Vec<Field>,
    by_number: Vec<u16>,
}

impl Message {
    pub fn parse(value: &Value) -> Result<Message, String> {
        let mut fields = vec![];
        for field in list(value, "fields")? {
            let kind = Kind::parse(field)?;
            let label = match text(field, "label")? {
                "many" => Label::Many,
                "map" => Label::Map,
                _ => Label::One { presence: flag(field, "presence")?, nullable: flag(field, "nullable")? },
            };
            fields.push(Field {
                number: number(field, "number")? as u64,
                column: get(field, "column")?.as_u64().map(|i| i as usize),
                label,
                wire: kind.wire(),
                packed: flag(field, "packed")?,
                kind,
                rivals: list(field, "rivals")?.iter().filter_map(Value::as_u64).map(|i| i as usize).collect(),
            });
        }
        if fields.len() > MAX_FIELDS {
            return Err("a message of too many fields".into());
        }
        let mut by_number =
            vec![u16::MAX; fields.iter().map(|f| f.number as usize + 1).filter(|n| *n < 1024).max().unwrap_or(0)];
        for (i, field) in fields.iter().enumerate() {
            if let Some(column) = by_number.get_mut(field.number as usize) {
                *column = i as u16;
            }
        }
        Ok(Message { fields, by_number })
    }

    #[inline(always)]
    pub fn find(&self, number: u64) -> Option<usize> {
        match self.by_number.get(number as usize) {
            Some(&u16::MAX) => None,
            Some(i) => Some(*i as usize),
            None => self.fields.iter().position(|field| field.number == number),
        }
    }

    /// Reads an event; `padded` says that zeros may stand behind the message.
    pub fn event(&self, columns: &mut [Col], body: &[u8], padded: bool) -> Res<()> {
        let row = columns.first().map_or(0, Col::len);
        self.read(columns, row, body, padded)
    }

    /// Reads a message as row `row` of its columns; none of the columns is touched where they are empty.
    fn read(&self, columns: &mut [Col], row: usize, body: &[u8], padded: bool) -> Res<()> {
        let mut seen = [0u64; MAX_FIELDS / 64];
        let mut at = Cursor { rest: body };
        let mut next = 0;
        while !at.rest.is_empty() {
            let before = at.rest;
            let tag = at.varint()?;
            if tag == 0 && padded && before.iter().all(|byte| *byte == 0) {
                break;
            }
            let (number, wire) = field_of(tag)?;
            let found = match self.fields.get(next) {
                Some(field) if field.number == number => Some(next),
                _ => self.find(number),
            };
            let Some(i) = found else {
                at.skip(number, wire, 0)?;
                continue;
            };
            next = i;
            let field = &self.fields[i];
            let packed = wire == Wire::Sized as u8 && field.wire != Wire::Sized && matches!(field.label, Label::Many);
            if wire != field.wire as u8 && !packed {
                at.skip(number, wire, 0)?;
                continue;
            }
            let was_seen = seen[i / 64] >> (i % 64) & 1 == 1;
            match field.label {
                Label::One { .. } => {
                    if let Kind::Enum { names, closed: true, .. } = &field.kind {
                        // A number that a closed enum doesn't have is an unknown field.
                        if !names.contains_key(&(at.peek_varint()? as i32)) {
                            at.varint()?;
                            continue;
                        }
                    }
                    for rival in &field.rivals {
                        if seen[rival / 64] >> (rival % 64) & 1 == 1 {
                            seen[rival / 64] &= !(1 << (rival % 64));
                            if let Some(column) = self.fields[*rival].column {
                                columns[column].truncate(row);
                            }
                        }
                    }
                    let column = field.column.map(|c| &mut columns[c]);
                    if was_seen && field.kind.is_message() {
                        // Messages of one field are parts of one message.
                        at.sized()?;
                        let whole = self.gathered(&body[..body.len() - at.rest.len()], number)?;
                        match column {
                            Some(column) => {
                                column.truncate(row);
                                field.kind.message(column, &whole)?;
                            }
                            // Each part was checked, or is by now.
                            None => field.kind.check_body(&whole)?,
                        }
                        continue;
                    }
                    match column {
                        Some(column) => {
                            if was_seen {
                                column.truncate(row);
                            }
                            field.kind.read(column, &mut at)?;
                        }
                        None => field.kind.check(&mut at)?,
                    }
                    seen[i / 64] |= 1 << (i % 64);
                }
                Label::Many => match field.column {
                    Some(c) => {
                        let Data::List(_, items) = &mut columns[c].data else { return Err(Bad) };
                        if packed {
                            let mut inside = Cursor { rest: at.sized()? };
                            while !inside.rest.is_empty() {
                                field.kind.read_item(items, &mut inside)?;
                            }
                        } else {
                            field.kind.read_item(items, &mut at)?;
                        }
                    }
                    None if packed => field.kind.check_packed(at.sized()?)?,
                    None => field.kind.check(&mut at)?,
                },
                Label::Map => {
                    let Kind::Message(entry) = &field.kind else { return Err(Bad) };
                    let inside = at.sized()?;
                    match field.column {
                        Some(c) => {
                            let Data::Map(_, keys, values) = &mut columns[c].data else { return Err(Bad) };
                            entry.read_entry(keys, values, inside)?;
                        }
                        None => entry.check(inside)?,
                    }
                }
            }
        }
        self.close(columns, row, &seen)
    }

    /// Gives columns that got nothing null or their default, and ends lists.
    #[inline]
    fn close(&self, columns: &mut [Col], row: usize, seen: &[u64]) -> Res<()> {
        for (i, field) in self.fields.iter().enumerate() {
            let Some(c) = field.column else { continue };
            let column = &mut columns[c];
            match field.label {
                Label::One { presence, nullable } => {
                    if seen[i / 64] >> (i % 64) & 1 == 1 {
                        continue;
                    }
                    match (presence, nullable) {
                        (true, true) => column.push_null(),
                        (true, false) => return Err(Bad),
                        (false, _) => field.kind.push_default(column)?,
                    }
                }
                Label::Many => column.close_list()?,
                Label::Map => {
                    let Data::Map(offsets, keys, _) = &column.data else { return Err(Bad) };
                    if keys.has_twins(offsets[row] as usize) {
                        return Err(Bad);
                    }
                    column.close_list()?;
                }
            }
        }
        Ok(())
    }

    /// Reads a map's entry: key and value, which have their defaults where they are missing.
    fn read_entry(&self, keys: &mut Col, values: &mut Col, body: &[u8]) -> Res<()> {
        let row = keys.len();
        let [key, value] = &self.fields[..] else { return Err(Bad) };
        let mut seen = [false; 2];
        let mut at = Cursor { rest: body };
        while !at.rest.is_empty() {
            let (number, wire) = field_of(at.varint()?)?;
            // The official library drops entries with fields that aren't theirs: left to the plain codec, which asks it.
            let (i, field, column) = match number {
                1 => (0, key, &mut *keys),
                2 => (1, value, &mut *values),
                _ => return Err(Bad),
            };
            if wire != field.wire as u8 {
                return Err(Bad);
            }
            if seen[i] {
                // A message in two parts is left to the plain codec.
                if field.kind.is_message() {
                    return Err(Bad);
                }
                column.truncate(row);
            }
            if let Kind::Enum { closed: true, .. } = &field.kind {
                return Err(Bad);
            }
            field.kind.read(column, &mut at)?;
            seen[i] = true;
        }
        if !seen[0] {
            key.kind.push_default(keys)?;
        }
        if !seen[1] {
            value.kind.push_default(values)?;
        }
        Ok(())
    }

    /// The bodies of all fields of a number, one behind the other.
    #[cold]
    fn gathered(&self, body: &[u8], wanted: u64) -> Res<Vec<u8>> {
        let mut whole = vec![];
        let mut at = Cursor { rest: body };
        while !at.rest.is_empty() {
            let tag = at.varint()?;
            if tag == wanted << 3 | Wire::Sized as u64 {
                whole.extend_from_slice(at.sized()?);
            } else {
                at.skip(tag >> 3, (tag & 7) as u8, 0)?;
            }
        }
        Ok(whole)
    }
}

impl Kind {
    fn parse(field: &Value) -> Result<Kind, String> {
        let message = || Message::parse(get(field, "message")?).map(Box::new);
        Ok(match text(field, "kind")? {
            "int32" => Kind::Int32,
            "int64" => Kind::Int64,
            "uint32" => Kind::UInt32,
            "uint64" => Kind::UInt64,
            "sint32" => Kind::SInt32,
            "sint64" => Kind::SInt64,
            "bool" => Kind::Bool,
            "fixed32" => Kind::Fixed32,
            "sfixed32" => Kind::SFixed32,
            "fixed64" => Kind::Fixed64,
            "sfixed64" => Kind::SFixed64,
            "float" => Kind::Float,
            "double" => Kind::Double,
            "string" => Kind::Text(flag(field, "utf8")?),
            "bytes" => Kind::Bytes,
            "decimal" => Kind::Decimal {
                scale: number(field, "scale")? as i32,
                bound: 10i128.checked_pow(number(field, "precision")? as u32).ok_or("a precision of more than 38")?,
            },
            "enum" => {
                let values = list(field, "enum")?;
                let name = |value: &Value| value[1].as_str().unwrap_or("").as_bytes().to_vec();
                // Of a number's several names the first one counts.
                let names = values.iter().rev().map(|v| (v[0].as_i64().unwrap_or(0) as i32, name(v))).collect();
                let first = number(field, "default")? as i32;
                let first = values.iter().find(|v| v[0].as_i64() == Some(first.into())).map_or(vec![], name);
                Kind::Enum { names, closed: flag(field, "closed")?, first }
            }
            "timestamp" => Kind::Timestamp(message()?),
            "wrapper" => Kind::Wrapper(message()?),
            "message" => Kind::Message(message()?),
            other => return Err(format!("no plan of kind {other}")),
        })
    }

    pub fn wire(&self) -> Wire {
        match self {
            Kind::Fixed32 | Kind::SFixed32 | Kind::Float => Wire::Four,
            Kind::Fixed64 | Kind::SFixed64 | Kind::Double => Wire::Eight,
            Kind::Text(_) | Kind::Bytes | Kind::Decimal { .. } => Wire::Sized,
            Kind::Timestamp(_) | Kind::Wrapper(_) | Kind::Message(_) => Wire::Sized,
            _ => Wire::Varint,
        }
    }

    fn is_message(&self) -> bool {
        matches!(self, Kind::Timestamp(_) | Kind::Wrapper(_) | Kind::Message(_))
    }

    #[inline]
    fn read(&self, column: &mut Col, at: &mut Cursor) -> Res<()> {
        match self {
            Kind::Int32 => column.push_number((at.varint()? as i32).into()),
            Kind::Int64 => column.push_number(at.varint()? as i64),
            Kind::UInt32 => column.push_number((at.varint()? as u32).into()),
            Kind::UInt64 => column.push_decimal(at.varint()?.into()),
            Kind::SInt32 => {
                let value = at.varint()? as u32;
                column.push_number(((value >> 1) as i32 ^ -((value & 1) as i32)).into())
            }
            Kind::SInt64 => {
                let value = at.varint()?;
                column.push_number((value >> 1) as i64 ^ -((value & 1) as i64))
            }
            Kind::Bool => column.push_bool(at.varint()? != 0),
            Kind::Fixed32 => column.push_number(u32::from_le_bytes(at.array()?).into()),
            Kind::SFixed32 => column.push_number(i32::from_le_bytes(at.array()?).into()),
            Kind::Fixed64 => column.push_decimal(u64::from_le_bytes(at.array()?).into()),
            Kind::SFixed64 => column.push_number(i64::from_le_bytes(at.array()?)),
            Kind::Float => column.push_single(f32::from_le_bytes(at.array()?)),
            Kind::Double => column.push_float(f64::from_le_bytes(at.array()?)),
            Kind::Text(_) => {
                let value = at.sized()?;
                check_text(value)?;
                column.push_bytes(value)
            }
            Kind::Bytes => column.push_bytes(at.sized()?),
            Kind::Decimal { scale, bound } => {
                let value = at.sized()?;
                let value = if value.is_empty() { b"0" } else { value };
                if number_end(value, 0)? != value.len() {
                    return Err(Bad);
                }
                column.push_decimal(scaled(value, *scale, *bound)?)
            }
            Kind::Enum { names, .. } => {
                let number = at.varint()? as i32;
                match names.get(&number) {
                    Some(name) => column.push_bytes(name),
                    None => column.push_bytes(number.to_string().as_bytes()),
                }
            }
            Kind::Timestamp(_) | Kind::Wrapper(_) | Kind::Message(_) => self.message(column, at.sized()?),
        }
    }

    /// Reads an item of a repeated field.
    #[inline]
    fn read_item(&self, items: &mut Col, at: &mut Cursor) -> Res<()> {
        if let Kind::Enum { names, closed: true, .. } = self {
            if !names.contains_key(&(at.peek_varint()? as i32)) {
                return at.varint().map(|_| ());
            }
        }
        self.read(items, at)
    }

    fn message(&self, column: &mut Col, body: &[u8]) -> Res<()> {
        match self {
            Kind::Message(message) => {
                let Data::Struct(row, children) = &mut column.data else { return Err(Bad) };
                message.read(children, *row, body, false)?;
                column.close_struct()
            }
            Kind::Wrapper(message) => {
                let row = column.len();
                message.read(std::slice::from_mut(column), row, body, false)
            }
            Kind::Timestamp(_) => {
                let (mut seconds, mut nanos) = (0i64, 0i32);
                let mut at = Cursor { rest: body };
                while !at.rest.is_empty() {
                    match at.varint()? {
                        8 => seconds = at.varint()? as i64,
                        16 => nanos = at.varint()? as i32,
                        tag => {
                            let (number, wire) = field_of(tag)?;
                            at.skip(number, wire, 0)?
                        }
                    }
                }
                let micros = i128::from(seconds) * 1_000_000 + i128::from(nanos.div_euclid(1000));
                column.push_number(i64::try_from(micros).map_err(|_| Bad)?)
            }
            _ => Err(Bad),
        }
    }

    fn push_default(&self, column: &mut Col) -> Res<()> {
        match self {
            Kind::Enum { first, .. } => column.push_bytes(first),
            Kind::Message(_) | Kind::Wrapper(_) | Kind::Timestamp(_) => self.message(column, &[]),
            _ => {
                column.push_default();
                Ok(())
            }
        }
    }
}
