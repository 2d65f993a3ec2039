//! JSON texts into columns, by a plan of what each value is.

use std::collections::HashMap;

use serde_json::Value;

use crate::column::{Bad, Col, Data, Res};
use crate::json_text::{base64, write_string, Parser, Str};
use crate::numbers::{number_end, scaled};
use crate::plan::{flag, get, list, number, text};
use crate::time;

pub enum Node {
    Bool,
    /// With the range of the column's type.
    Integer(i64, i64),
    Millis,
    Double,
    Single,
    Decimal {
        scale: i32,
        bound: i128,
    },
    Text,
    Json,
    Base64,
    Date,
    Moment {
        zoned: bool,
    },
    Items {
        item: Box<Node>,
        nullable: bool,
        or_base64: bool,
    },
    Entries {
        value: Box<Node>,
        nullable: bool,
    },
    Object(Object),
}

pub struct Object {
    pub fields: Vec<Field>,
    by_name: HashMap<Vec<u8>, usize>,
    /// The properties that objects have had, in their order: the next one most likely has the same.
    order: Vec<Known>,
}

/// A property by its name as it is written, with quotes and a colon behind it; `None` for one that nobody wants.
struct Known {
    quoted: Vec<u8>,
    field: Option<usize>,
}

/// How many properties that an object hasn't are passed over before its next one is looked up by its name.
const MOST_LEFT_OUT: usize = 4;
/// Of how many properties the order is known, and of how many bytes their names are.
const MOST_KNOWN: usize = 1000;
const MOST_BYTES: usize = 256;

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
        Ok(Object { fields, by_name, order: vec![] })
    }

    /// Reads one event: an object, with nothing behind it but blanks and zeros.
    pub fn event(&mut self, columns: &mut [Col], body: &[u8], scratch: &mut Vec<u8>) -> Res<()> {
        simdutf8::basic::from_utf8(body).map_err(|_| Bad)?;
        let mut at = Parser::new(body, scratch);
        at.blanks();
        let row = columns.first().map_or(0, Col::len);
        self.read(columns, row, &mut at)?;
        match at.rest().iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0)) {
            true => Ok(()),
            false => Err(Bad),
        }
    }

    /// Reads an object as row `row` of its columns.
    fn read(&mut self, columns: &mut [Col], row: usize, at: &mut Parser) -> Res<()> {
        at.open(b'{')?;
        let mut step = 0;
        let mut seen = 0;
        if !at.closed(b'}') {
            loop {
                let found = self.property(&mut step, at)?;
                match found {
                    Some(i) => {
                        let field = &mut self.fields[i];
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

    /// Reads a property's name and the colon behind it; which field that is.
    #[inline(always)]
    fn property(&mut self, step: &mut usize, at: &mut Parser) -> Res<Option<usize>> {
        for (left_out, known) in self.order.iter().skip(*step).take(MOST_LEFT_OUT + 1).enumerate() {
            if at.takes(&known.quoted) {
                *step += left_out + 1;
                at.blanks();
                return Ok(known.field);
            }
        }
        let name = at.string()?;
        let field = self.by_name.get(name.bytes(at)).copied();
        if matches!(name, Str::Plain(..)) && *step < MOST_KNOWN && name.bytes(at).len() <= MOST_BYTES {
            if *step >= self.order.len() {
                self.order.push(Known { quoted: vec![], field });
                *step = self.order.len() - 1;
            }
            let known = &mut self.order[*step];
            known.field = field;
            known.quoted.clear();
            known.quoted.push(b'"');
            known.quoted.extend_from_slice(name.bytes(at));
            known.quoted.extend_from_slice(b"\":");
        }
        *step += 1;
        at.colon()?;
        Ok(field)
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
            "entries" => {
                Node::Entries { value: Box::new(Node::parse(get(value, "of")?)?), nullable: flag(value, "nullable")? }
            }
            "object" => Node::Object(Object::parse(value)?),
            other => return Err(format!("no plan of kind {other}")),
        })
    }

    #[inline]
    fn read_nullable(&mut self, nullable: bool, column: &mut Col, at: &mut Parser) -> Res<()> {
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

    fn read(&mut self, column: &mut Col, at: &mut Parser) -> Res<()> {
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
                if at.peek() != b'"' {
                    return column.push_decimal(at.decimal(*scale, *bound)?);
                }
                let found = at.string()?;
                let bytes = found.bytes(at);
                if number_end(bytes, 0)? != bytes.len() {
                    return Err(Bad);
                }
                column.push_decimal(scaled(bytes, *scale, *bound)?)
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
                let Data::Bytes(_, data) = &mut column.data else {
                    let mut bytes = vec![];
                    base64(found.bytes(at), &mut bytes)?;
                    return column.push_bytes(&bytes);
                };
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
                if keys.has_twins(first) {
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
