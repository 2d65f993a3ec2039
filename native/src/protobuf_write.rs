//! Rows as Protobuf messages.

use crate::column::{Bad, Res};
use crate::protobuf::{Field, Kind, Label, Message};
use crate::protobuf_wire::Wire;
use crate::source::{write_decimal, Source};

impl Message {
    /// Writes a row; columns are where the fields say.
    pub fn write(&self, columns: &[Source], row: usize, out: &mut Vec<u8>) -> Res<()> {
        for field in &self.fields {
            let source = &columns[field.column.ok_or(Bad)?];
            if source.is_null(row) {
                match field.label {
                    Label::One { presence: true, nullable: true } => continue,
                    _ => return Err(Bad),
                }
            }
            for rival in &field.rivals {
                if !columns[self.fields[*rival].column.ok_or(Bad)?].is_null(row) {
                    return Err(Bad);
                }
            }
            match field.label {
                Label::One { presence, .. } => field.write_one(source, row, presence, out)?,
                Label::Many => field.write_many(source, row, out)?,
                Label::Map => field.write_map(source, row, out)?,
            }
        }
        Ok(())
    }

    fn write_entry(&self, keys: &Source, values: &Source, row: usize, out: &mut Vec<u8>) -> Res<()> {
        let [key, value] = &self.fields[..] else { return Err(Bad) };
        if values.is_null(row) {
            return Err(Bad);
        }
        key.write_one(keys, row, true, out)?;
        value.write_one(values, row, true, out)
    }
}

impl Field {
    fn tag(&self, wire: Wire, out: &mut Vec<u8>) {
        varint(self.number << 3 | wire as u64, out);
    }

    /// Writes tag and value; without presence the default value is left out.
    #[inline]
    fn write_one(&self, source: &Source, row: usize, presence: bool, out: &mut Vec<u8>) -> Res<()> {
        let start = out.len();
        self.tag(self.wire, out);
        let value = out.len();
        self.kind.write(source, row, out)?;
        if !presence
            && out[value..].iter().all(|byte| *byte == 0)
            && (out.len() - value == 1 || self.wire != Wire::Sized)
        {
            out.truncate(start);
        }
        Ok(())
    }

    fn write_many(&self, source: &Source, row: usize, out: &mut Vec<u8>) -> Res<()> {
        let (items, range) = source.items(row)?;
        if range.is_empty() {
            return Ok(());
        }
        if range.clone().any(|i| items.is_null(i)) {
            return Err(Bad);
        }
        if !self.packed {
            for i in range {
                self.tag(self.wire, out);
                self.kind.write(items, i, out)?;
            }
            return Ok(());
        }
        self.tag(Wire::Sized, out);
        sized(out, |out| range.into_iter().try_for_each(|i| self.kind.write(items, i, out)))
    }

    fn write_map(&self, source: &Source, row: usize, out: &mut Vec<u8>) -> Res<()> {
        let Kind::Message(entry) = &self.kind else { return Err(Bad) };
        let (keys, values, range) = source.entries(row)?;
        if keys.has_twins(range.clone()) {
            return Err(Bad);
        }
        for i in range {
            self.tag(Wire::Sized, out);
            sized(out, |out| entry.write_entry(keys, values, i, out))?;
        }
        Ok(())
    }
}

impl Kind {
    #[inline]
    fn write(&self, source: &Source, row: usize, out: &mut Vec<u8>) -> Res<()> {
        match self {
            Kind::Int32 | Kind::Int64 => varint(source.number(row)? as u64, out),
            Kind::UInt32 => varint(u32::try_from(source.number(row)?).map_err(|_| Bad)?.into(), out),
            Kind::UInt64 => varint(u64::try_from(source.decimal(row)?).map_err(|_| Bad)?, out),
            Kind::SInt32 | Kind::SInt64 => {
                let value = source.number(row)?;
                varint(((value << 1) ^ (value >> 63)) as u64, out);
            }
            Kind::Bool => out.push(source.flag(row)?.into()),
            Kind::Fixed32 => out.extend_from_slice(&u32::try_from(source.number(row)?).map_err(|_| Bad)?.to_le_bytes()),
            Kind::SFixed32 => {
                out.extend_from_slice(&i32::try_from(source.number(row)?).map_err(|_| Bad)?.to_le_bytes())
            }
            Kind::Fixed64 => {
                out.extend_from_slice(&u64::try_from(source.decimal(row)?).map_err(|_| Bad)?.to_le_bytes())
            }
            Kind::SFixed64 => out.extend_from_slice(&source.number(row)?.to_le_bytes()),
            Kind::Float => out.extend_from_slice(&source.single(row)?.to_le_bytes()),
            Kind::Double => out.extend_from_slice(&source.double(row)?.to_le_bytes()),
            Kind::Text(_) | Kind::Bytes => {
                let value = source.bytes(row)?;
                varint(value.len() as u64, out);
                out.extend_from_slice(value);
            }
            Kind::Decimal { scale, .. } => {
                let value = source.decimal(row)?;
                sized(out, |out| {
                    write_decimal(value, *scale as usize, out);
                    Ok(())
                })?;
            }
            Kind::Enum { names, .. } => {
                let wanted = source.bytes(row)?;
                let number = names.iter().find(|(_, name)| name.as_slice() == wanted).map(|(number, _)| *number);
                varint(i64::from(number.ok_or(Bad)?) as u64, out);
            }
            Kind::Timestamp(_) => {
                let micros = source.number(row)?;
                sized(out, |out| {
                    let (seconds, nanos) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000) * 1000);
                    for (tag, value) in [(8, seconds), (16, nanos)] {
                        if value != 0 {
                            out.push(tag);
                            varint(value as u64, out);
                        }
                    }
                    Ok(())
                })?;
            }
            Kind::Wrapper(message) => {
                sized(out, |out| message.fields.first().ok_or(Bad)?.write_one(source, row, false, out))?
            }
            Kind::Message(message) => {
                let children = source.children()?;
                sized(out, |out| message.write(children, row, out))?
            }
        }
        Ok(())
    }
}

/// Writes something behind its length.
#[inline]
fn sized(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Res<()>) -> Res<()> {
    let start = out.len();
    out.push(0);
    write(out)?;
    let length = out.len() - start - 1;
    if length < 0x80 {
        out[start] = length as u8;
        return Ok(());
    }
    let mut head = vec![];
    varint(length as u64, &mut head);
    out.splice(start..start + 1, head);
    Ok(())
}

#[inline(always)]
fn varint(value: u64, out: &mut Vec<u8>) {
    let mut left = value;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}
