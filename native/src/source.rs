//! Arrow columns as rows are written from them.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    Int8Type, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, TimeUnit};

use crate::column::{twins, Bad, Res};

pub enum Values<'a> {
    Bool(&'a BooleanBuffer),
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    F32(&'a [f32]),
    F64(&'a [f64]),
    Decimal(&'a [i128]),
    Bytes(&'a [i32], &'a [u8]),
    List(&'a [i32], Box<Source<'a>>),
    Map(&'a [i32], Box<Source<'a>>, Box<Source<'a>>),
    Struct(Vec<Source<'a>>),
}

pub struct Source<'a> {
    pub values: Values<'a>,
    nulls: Option<&'a NullBuffer>,
}

impl<'a> Source<'a> {
    pub fn new(array: &'a ArrayRef) -> Result<Source<'a>, String> {
        let values = match array.data_type() {
            DataType::Boolean => Values::Bool(array.as_boolean().values()),
            DataType::Int8 => Values::I8(array.as_primitive::<Int8Type>().values()),
            DataType::Int16 => Values::I16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => Values::I32(array.as_primitive::<Int32Type>().values()),
            DataType::Date32 => Values::I32(array.as_primitive::<Date32Type>().values()),
            DataType::Int64 => Values::I64(array.as_primitive::<Int64Type>().values()),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                Values::I64(array.as_primitive::<TimestampMicrosecondType>().values())
            }
            DataType::Duration(TimeUnit::Microsecond) => {
                Values::I64(array.as_primitive::<DurationMicrosecondType>().values())
            }
            DataType::Float32 => Values::F32(array.as_primitive::<Float32Type>().values()),
            DataType::Float64 => Values::F64(array.as_primitive::<Float64Type>().values()),
            DataType::Decimal128(_, _) => Values::Decimal(array.as_primitive::<Decimal128Type>().values()),
            DataType::Utf8 => {
                let text = array.as_string::<i32>();
                Values::Bytes(text.value_offsets(), text.value_data())
            }
            DataType::Binary => {
                let bytes = array.as_binary::<i32>();
                Values::Bytes(bytes.value_offsets(), bytes.value_data())
            }
            DataType::List(_) => {
                let found = array.as_list::<i32>();
                Values::List(found.value_offsets(), Box::new(Source::new(found.values())?))
            }
            DataType::Map(_, _) => {
                let found = array.as_map();
                Values::Map(
                    found.value_offsets(),
                    Box::new(Source::new(found.keys())?),
                    Box::new(Source::new(found.values())?),
                )
            }
            DataType::Struct(_) => {
                Values::Struct(array.as_struct().columns().iter().map(Source::new).collect::<Result<_, _>>()?)
            }
            other => return Err(format!("no columns of type {other}")),
        };
        Ok(Source { values, nulls: array.nulls() })
    }

    #[inline(always)]
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.is_some_and(|nulls| nulls.is_null(row))
    }

    #[inline(always)]
    pub fn number(&self, row: usize) -> Res<i64> {
        Ok(match &self.values {
            Values::I64(v) => v[row],
            Values::I32(v) => v[row].into(),
            Values::I16(v) => v[row].into(),
            Values::I8(v) => v[row].into(),
            _ => return Err(Bad),
        })
    }

    #[inline(always)]
    pub fn flag(&self, row: usize) -> Res<bool> {
        match &self.values {
            Values::Bool(v) => Ok(v.value(row)),
            _ => Err(Bad),
        }
    }

    #[inline(always)]
    pub fn double(&self, row: usize) -> Res<f64> {
        match &self.values {
            Values::F64(v) => Ok(v[row]),
            Values::F32(v) => Ok(v[row].into()),
            _ => Err(Bad),
        }
    }

    #[inline(always)]
    pub fn single(&self, row: usize) -> Res<f32> {
        match &self.values {
            Values::F32(v) => Ok(v[row]),
            _ => Err(Bad),
        }
    }

    #[inline(always)]
    pub fn decimal(&self, row: usize) -> Res<i128> {
        match &self.values {
            Values::Decimal(v) => Ok(v[row]),
            _ => Err(Bad),
        }
    }

    #[inline(always)]
    pub fn bytes(&self, row: usize) -> Res<&'a [u8]> {
        match &self.values {
            Values::Bytes(offsets, data) => Ok(&data[offsets[row] as usize..offsets[row + 1] as usize]),
            _ => Err(Bad),
        }
    }

    /// A list's items, and which of them are the row's.
    #[inline(always)]
    pub fn items(&self, row: usize) -> Res<(&Source<'a>, std::ops::Range<usize>)> {
        match &self.values {
            Values::List(offsets, items) => Ok((items, offsets[row] as usize..offsets[row + 1] as usize)),
            _ => Err(Bad),
        }
    }

    /// A map's keys and values, and which of them are the row's.
    #[inline(always)]
    pub fn entries(&self, row: usize) -> Res<(&Source<'a>, &Source<'a>, std::ops::Range<usize>)> {
        match &self.values {
            Values::Map(offsets, keys, values) => Ok((keys, values, offsets[row] as usize..offsets[row + 1] as usize)),
            _ => Err(Bad),
        }
    }

    #[inline(always)]
    pub fn children(&self) -> Res<&[Source<'a>]> {
        match &self.values {
            Values::Struct(children) => Ok(children),
            _ => Err(Bad),
        }
    }

    /// Whether a map's keys hold one twice.
    pub fn has_twins(&self, range: std::ops::Range<usize>) -> bool {
        match &self.values {
            Values::Bytes(_, _) => twins(range, |i| self.bytes(i).ok()),
            Values::Bool(_) => twins(range, |i| self.flag(i).ok()),
            _ => twins(range, |i| self.number(i).ok()),
        }
    }
}

/// Writes an unscaled decimal as a number with all its digits.
pub fn write_decimal(value: i128, scale: usize, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(value.unsigned_abs()).as_bytes();
    if scale == 0 {
        out.extend_from_slice(digits);
        return;
    }
    let zeros = (scale + 1).saturating_sub(digits.len());
    let start = out.len();
    out.resize(start + zeros, b'0');
    out.extend_from_slice(digits);
    let point = out.len() - scale;
    out.insert(point, b'.');
}
