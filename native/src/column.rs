//! Arrow columns that grow value by value, and can be cut back to an earlier length.

use std::sync::Arc;

use arrow_array::{make_array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, TimeUnit};

use crate::views::Views;

/// An event, or a value, isn't what the plan says. Which rule it breaks is told by the plain codec.
#[derive(Debug, Clone, Copy)]
pub struct Bad;

pub type Res<T> = Result<T, Bad>;

/// An Arrow array can't hold more bytes or items than this, with offsets of 32 bits.
pub const MAX_OFFSET: usize = i32::MAX as usize;

pub enum Data {
    /// A 1 or 0 for each value: quicker to push, and packed into bits at the end.
    Bool(Vec<u8>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Decimal(Vec<i128>),
    Bytes(Vec<i32>, Vec<u8>),
    /// Texts or bytes in place of `Bytes`.
    Views(Views),
    List(Vec<i32>, Box<Col>),
    Map(Vec<i32>, Box<Col>, Box<Col>),
    Struct(usize, Vec<Col>),
}

pub struct Col {
    pub data: Data,
    /// A 1 or 0 for each value; made with the first null.
    valid: Option<Vec<u8>>,
    kind: DataType,
    pub nullable: bool,
}

impl Col {
    /// An empty column of a type, or what is wrong with the type.
    pub fn new(field: &Field) -> Result<Col, String> {
        let kind = field.data_type().clone();
        let data = match &kind {
            DataType::Boolean => Data::Bool(vec![]),
            DataType::Int8 => Data::I8(vec![]),
            DataType::Int16 => Data::I16(vec![]),
            DataType::Int32 | DataType::Date32 => Data::I32(vec![]),
            DataType::Int64
            | DataType::Timestamp(TimeUnit::Microsecond, _)
            | DataType::Duration(TimeUnit::Microsecond) => Data::I64(vec![]),
            DataType::Float32 => Data::F32(vec![]),
            DataType::Float64 => Data::F64(vec![]),
            DataType::Decimal128(_, _) => Data::Decimal(vec![]),
            DataType::Utf8 | DataType::Binary => Data::Bytes(vec![0], vec![]),
            DataType::List(item) => Data::List(vec![0], Box::new(Col::new(item)?)),
            DataType::Map(entries, _) => {
                let DataType::Struct(parts) = entries.data_type() else {
                    return Err("a map of no entries".into());
                };
                Data::Map(vec![0], Box::new(Col::new(&parts[0])?), Box::new(Col::new(&parts[1])?))
            }
            DataType::Struct(fields) => Data::Struct(0, fields.iter().map(|f| Col::new(f)).collect::<Result<_, _>>()?),
            other => return Err(format!("no columns of type {other}")),
        };
        Ok(Col { data, valid: None, kind, nullable: field.is_nullable() })
    }

    pub fn len(&self) -> usize {
        match &self.data {
            Data::Bool(v) => v.len(),
            Data::I8(v) => v.len(),
            Data::I16(v) => v.len(),
            Data::I32(v) => v.len(),
            Data::I64(v) => v.len(),
            Data::F32(v) => v.len(),
            Data::F64(v) => v.len(),
            Data::Decimal(v) => v.len(),
            Data::Bytes(o, _) | Data::List(o, _) | Data::Map(o, _, _) => o.len() - 1,
            Data::Views(v) => v.views.len(),
            Data::Struct(n, _) => *n,
        }
    }

    /// Notes that the value just pushed isn't null.
    #[inline(always)]
    pub fn pushed(&mut self) {
        if let Some(valid) = &mut self.valid {
            valid.push(1);
        }
    }

    /// Pushes null; the caller has made sure that the column takes it.
    #[inline]
    pub fn push_null(&mut self) {
        let before = self.len();
        let valid = self.valid.get_or_insert_with(|| {
            let mut made = Vec::with_capacity(before + 64);
            made.resize(before, 1);
            made
        });
        valid.push(0);
        self.push_blank();
    }

    /// A value to stand where nobody looks, or the default of a type that has one.
    fn push_blank(&mut self) {
        match &mut self.data {
            Data::Bool(v) => v.push(0),
            Data::I8(v) => v.push(0),
            Data::I16(v) => v.push(0),
            Data::I32(v) => v.push(0),
            Data::I64(v) => v.push(0),
            Data::F32(v) => v.push(0.0),
            Data::F64(v) => v.push(0.0),
            Data::Decimal(v) => v.push(0),
            Data::Bytes(o, _) | Data::List(o, _) | Data::Map(o, _, _) => o.push(o[o.len() - 1]),
            Data::Views(v) => v.views.push(0),
            Data::Struct(n, children) => {
                *n += 1;
                for child in children {
                    if child.nullable {
                        child.push_null();
                    } else {
                        child.push_default();
                    }
                }
            }
        }
    }

    /// Pushes zero, an empty string or list, or a struct of nulls.
    pub fn push_default(&mut self) {
        self.push_blank();
        self.pushed();
    }

    #[inline(always)]
    pub fn push_bytes(&mut self, value: &[u8]) -> Res<()> {
        match &mut self.data {
            Data::Bytes(offsets, data) => {
                data.extend_from_slice(value);
                if data.len() > MAX_OFFSET {
                    return Err(Bad);
                }
                offsets.push(data.len() as i32);
            }
            Data::Views(views) => views.push(value)?,
            _ => return Err(Bad),
        }
        self.pushed();
        Ok(())
    }

    /// Pushes the first bytes of a chunk: quicker than a copy of just these.
    #[inline(always)]
    pub fn push_short(&mut self, chunk: &[u8; 16], size: usize) -> Res<()> {
        let Data::Bytes(offsets, data) = &mut self.data else {
            return self.push_bytes(chunk.get(..size).ok_or(Bad)?);
        };
        data.reserve(16);
        let end = data.len() + size;
        if size > 16 || end > MAX_OFFSET {
            return Err(Bad);
        }
        // Safe because there is room for 16 bytes, of which the first ones are kept.
        unsafe {
            std::ptr::copy_nonoverlapping(chunk.as_ptr(), data.as_mut_ptr().add(data.len()), 16);
            data.set_len(end);
        }
        offsets.push(end as i32);
        self.pushed();
        Ok(())
    }

    /// Pushes a whole number, if the column's type has it.
    #[inline(always)]
    pub fn push_number(&mut self, value: i64) -> Res<()> {
        match &mut self.data {
            Data::I64(v) => v.push(value),
            Data::I32(v) => v.push(i32::try_from(value).map_err(|_| Bad)?),
            Data::I16(v) => v.push(i16::try_from(value).map_err(|_| Bad)?),
            Data::I8(v) => v.push(i8::try_from(value).map_err(|_| Bad)?),
            Data::F64(v) => v.push(value as f64),
            Data::F32(v) => v.push(value as f32),
            Data::Decimal(v) => v.push(value as i128),
            _ => return Err(Bad),
        }
        self.pushed();
        Ok(())
    }

    #[inline(always)]
    pub fn push_bool(&mut self, value: bool) -> Res<()> {
        let Data::Bool(v) = &mut self.data else { return Err(Bad) };
        v.push(value.into());
        self.pushed();
        Ok(())
    }

    #[inline(always)]
    pub fn push_float(&mut self, value: f64) -> Res<()> {
        match &mut self.data {
            Data::F64(v) => v.push(value),
            Data::F32(v) => v.push(value as f32),
            _ => return Err(Bad),
        }
        self.pushed();
        Ok(())
    }

    /// Pushes a float without a detour over f64, which would change the payload of some NaNs.
    #[inline(always)]
    pub fn push_single(&mut self, value: f32) -> Res<()> {
        match &mut self.data {
            Data::F32(v) => v.push(value),
            Data::F64(v) => v.push(value as f64),
            _ => return Err(Bad),
        }
        self.pushed();
        Ok(())
    }

    /// Pushes an unscaled decimal.
    #[inline(always)]
    pub fn push_decimal(&mut self, value: i128) -> Res<()> {
        let Data::Decimal(v) = &mut self.data else { return Err(Bad) };
        v.push(value);
        self.pushed();
        Ok(())
    }

    /// Closes a list whose items have been pushed.
    #[inline(always)]
    pub fn close_list(&mut self) -> Res<()> {
        let (offsets, items) = match &mut self.data {
            Data::List(o, item) => (o, item.len()),
            Data::Map(o, key, _) => (o, key.len()),
            _ => return Err(Bad),
        };
        if items > MAX_OFFSET {
            return Err(Bad);
        }
        offsets.push(items as i32);
        self.pushed();
        Ok(())
    }

    /// Closes a struct whose children have been pushed.
    #[inline(always)]
    pub fn close_struct(&mut self) -> Res<()> {
        let Data::Struct(n, _) = &mut self.data else { return Err(Bad) };
        *n += 1;
        self.pushed();
        Ok(())
    }

    /// Forgets all values from `len` on, and items that belong to none.
    pub fn truncate(&mut self, len: usize) {
        match &mut self.data {
            Data::Bool(v) => v.truncate(len),
            Data::I8(v) => v.truncate(len),
            Data::I16(v) => v.truncate(len),
            Data::I32(v) => v.truncate(len),
            Data::I64(v) => v.truncate(len),
            Data::F32(v) => v.truncate(len),
            Data::F64(v) => v.truncate(len),
            Data::Decimal(v) => v.truncate(len),
            Data::Bytes(o, data) => {
                o.truncate(len + 1);
                data.truncate(o[o.len() - 1] as usize);
            }
            Data::Views(v) => v.views.truncate(len),
            Data::List(o, item) => {
                o.truncate(len + 1);
                item.truncate(o[o.len() - 1] as usize);
            }
            Data::Map(o, key, value) => {
                o.truncate(len + 1);
                key.truncate(o[o.len() - 1] as usize);
                value.truncate(o[o.len() - 1] as usize);
            }
            Data::Struct(n, children) => {
                *n = len.min(*n);
                for child in children {
                    child.truncate(len);
                }
            }
        }
        if let Some(valid) = &mut self.valid {
            valid.truncate(len);
        }
    }

    /// Takes all values out.
    fn take(&mut self) -> ArrayData {
        let len = self.len();
        let valid = self.valid.take().filter(|v| v.contains(&0)).map(|v| packed(&v));
        let mut made = ArrayData::builder(self.shown_kind()).len(len).null_bit_buffer(valid);
        fn offsets(o: &mut Vec<i32>) -> Buffer {
            Buffer::from_vec(std::mem::replace(o, vec![0]))
        }
        match &mut self.data {
            Data::Bool(v) => made = made.add_buffer(packed(&std::mem::take(v))),
            Data::I8(v) => made = made.add_buffer(Buffer::from_vec(std::mem::take(v))),
            Data::I16(v) => made = made.add_buffer(Buffer::from_vec(std::mem::take(v))),
            Data::I32(v) => made = made.add_buffer(Buffer::from_vec(std::mem::take(v))),
            Data::I64(v) => made = made.add_buffer(Buffer::from_vec(std::mem::take(v))),
            Data::F32(v) => made = made.add_buffer(Buffer::from_vec(std::mem::take(v))),
            Data::F64(v) => made = made.add_buffer(Buffer::from_vec(std::mem::take(v))),
            Data::Decimal(v) => made = made.add_buffer(Buffer::from_vec(std::mem::take(v))),
            Data::Bytes(o, data) => {
                made = made.add_buffer(offsets(o)).add_buffer(Buffer::from_vec(std::mem::take(data)))
            }
            Data::Views(v) => made = made.add_buffers(v.take()),
            Data::List(o, item) => made = made.add_buffer(offsets(o)).add_child_data(item.take()),
            Data::Map(o, key, value) => {
                let DataType::Map(entries, _) = &self.kind else { unreachable!() };
                let items = key.len();
                let pairs = ArrayData::builder(entries.data_type().clone())
                    .len(items)
                    .add_child_data(key.take())
                    .add_child_data(value.take());
                // Safe because keys and values are pushed in pairs, or cut back together.
                let pairs = unsafe { pairs.build_unchecked() };
                made = made.add_buffer(offsets(o)).add_child_data(pairs);
            }
            Data::Struct(n, children) => {
                *n = 0;
                for child in children {
                    made = made.add_child_data(child.take());
                }
            }
        }
        // Safe because offsets only grow, children have the lengths they say, and text was checked to be UTF-8.
        unsafe { made.build_unchecked() }
    }

    /// Makes room for so many values more.
    pub fn reserve(&mut self, more: usize) {
        match &mut self.data {
            Data::Bool(v) => v.reserve(more),
            Data::I8(v) => v.reserve(more),
            Data::I16(v) => v.reserve(more),
            Data::I32(v) => v.reserve(more),
            Data::I64(v) => v.reserve(more),
            Data::F32(v) => v.reserve(more),
            Data::F64(v) => v.reserve(more),
            Data::Decimal(v) => v.reserve(more),
            Data::Bytes(o, data) => {
                o.reserve(more);
                data.reserve(more * 8);
            }
            Data::Views(v) => v.views.reserve(more),
            Data::List(o, item) => {
                o.reserve(more);
                item.reserve(more);
            }
            Data::Map(o, key, value) => {
                o.reserve(more);
                key.reserve(more);
                value.reserve(more);
            }
            Data::Struct(_, children) => children.iter_mut().for_each(|child| child.reserve(more)),
        }
        if self.nullable {
            let len = self.len();
            let valid = self.valid.get_or_insert_with(|| vec![1; len]);
            valid.reserve(more);
        }
    }

    /// Whether a key from `first` on comes twice. Such a map is left to the plain codec, which keeps the last value.
    pub fn has_twins(&self, first: usize) -> bool {
        let keys = first..self.len();
        if keys.len() < 2 {
            return false;
        }
        match &self.data {
            Data::Bytes(offsets, data) => twins(keys, |i| &data[offsets[i] as usize..offsets[i + 1] as usize]),
            Data::I8(v) => twins(keys, |i| v[i]),
            Data::I16(v) => twins(keys, |i| v[i]),
            Data::I32(v) => twins(keys, |i| v[i]),
            Data::I64(v) => twins(keys, |i| v[i]),
            Data::Decimal(v) => twins(keys, |i| v[i]),
            Data::Bool(v) => twins(keys, |i| v[i]),
            _ => true,
        }
    }

    /// The field of the array that `finish` gives: of views where the values are some.
    pub fn shown_field(&self, field: &Arc<Field>) -> Arc<Field> {
        match &self.data {
            Data::Views(_) => Arc::new(field.as_ref().clone().with_data_type(self.shown_kind())),
            _ => field.clone(),
        }
    }

    fn shown_kind(&self) -> DataType {
        match (&self.data, &self.kind) {
            (Data::Views(_), DataType::Utf8) => DataType::Utf8View,
            (Data::Views(_), _) => DataType::BinaryView,
            (_, kind) => kind.clone(),
        }
    }

    /// How many bytes texts or bytes have on average.
    pub fn mean_size(&self) -> usize {
        let size = match &self.data {
            Data::Bytes(_, data) => data.len(),
            Data::Views(views) => views.size(),
            _ => 0,
        };
        size / self.len().max(1)
    }

    /// Has a column of texts or bytes, which is empty, take views of these buffers, or copies.
    pub fn view(&mut self, received: Option<&[Buffer]>) {
        if let Data::Bytes(_, _) | Data::Views(_) = self.data {
            let views = received.and_then(Views::of);
            self.data = views.map_or_else(|| Data::Bytes(vec![0], vec![]), Data::Views);
        }
    }

    pub fn finish(&mut self) -> ArrayRef {
        make_array(self.take())
    }
}

/// Bytes of 0 and 1 as bits.
fn packed(bytes: &[u8]) -> Buffer {
    let mut bits = Vec::with_capacity(bytes.len().div_ceil(8));
    let mut eights = bytes.chunks_exact(8);
    for eight in &mut eights {
        let word = u64::from_le_bytes([eight[0], eight[1], eight[2], eight[3], eight[4], eight[5], eight[6], eight[7]]);
        // The product gathers the lowest bit of each byte in the highest byte.
        bits.push((word.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8);
    }
    let rest = eights.remainder();
    if !rest.is_empty() {
        bits.push(rest.iter().enumerate().fold(0, |byte, (i, bit)| byte | bit << i));
    }
    Buffer::from_vec(bits)
}

/// Whether two of these rows have the same key.
pub fn twins<T: std::hash::Hash + Eq>(range: std::ops::Range<usize>, key: impl Fn(usize) -> T) -> bool {
    if range.len() <= 16 {
        return range.clone().any(|i| (range.start..i).any(|j| key(i) == key(j)));
    }
    let mut seen = std::collections::HashSet::with_capacity(range.len());
    range.into_iter().any(|i| !seen.insert(key(i)))
}
