//! Values of Spark's rows that aren't nested, as Arrow columns: see `rows`.

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type, Int16Type,
    Int32Type, Int64Type, Int8Type, Time64NanosecondType, TimestampMicrosecondType,
};
use arrow_array::{BinaryArray, BooleanArray, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, TimeUnit};

use crate::rows::{nested, region, word, wrong, Region, Res, Slots, OUT_OF_BOUNDS};

/// Values of up to so many bytes are copied with what lies behind them.
const SHORT: usize = 16;
/// Decimals of up to so many digits lie in a word.
const LONG_DIGITS: u8 = 18;
/// The largest byte, as a signed one, with which a character in UTF-8 goes on.
const CONTINUES: i8 = -65;

pub fn of_values(data: &[u8], slots: &impl Slots, kind: &DataType) -> Res<ArrayData> {
    match kind {
        DataType::Boolean => booleans(data, slots),
        DataType::Int8 => fixed::<Int8Type>(data, slots, kind),
        DataType::Int16 => fixed::<Int16Type>(data, slots, kind),
        DataType::Int32 => fixed::<Int32Type>(data, slots, kind),
        DataType::Int64 => fixed::<Int64Type>(data, slots, kind),
        DataType::Float32 => fixed::<Float32Type>(data, slots, kind),
        DataType::Float64 => fixed::<Float64Type>(data, slots, kind),
        DataType::Date32 => fixed::<Date32Type>(data, slots, kind),
        DataType::Timestamp(TimeUnit::Microsecond, _) => fixed::<TimestampMicrosecondType>(data, slots, kind),
        DataType::Duration(TimeUnit::Microsecond) => fixed::<DurationMicrosecondType>(data, slots, kind),
        DataType::Time64(TimeUnit::Nanosecond) => fixed::<Time64NanosecondType>(data, slots, kind),
        DataType::Decimal128(precision, _) => decimals(data, slots, kind, *precision),
        DataType::Utf8 | DataType::Binary => bytes(data, slots, kind),
        other => wrong(&format!("no columns of type {other}")),
    }
}

/// A value in a region of its own width.
trait Fixed: ArrowPrimitiveType {
    fn read(data: &[u8], at: usize) -> Option<Self::Native>;
}

macro_rules! fixed {
    ($($kind:ty, $native:ty);*) => {$(
        impl Fixed for $kind {
            #[inline(always)]
            fn read(data: &[u8], at: usize) -> Option<$native> {
                Some(<$native>::from_le_bytes(*data.get(at..)?.first_chunk()?))
            }
        }
    )*};
}

fixed!(
    Int8Type, i8; Int16Type, i16; Int32Type, i32; Int64Type, i64; Date32Type, i32; TimestampMicrosecondType, i64;
    DurationMicrosecondType, i64; Time64NanosecondType, i64; Float32Type, f32; Float64Type, f64
);

fn fixed<T: Fixed>(data: &[u8], slots: &impl Slots, kind: &DataType) -> Res<ArrayData> {
    let mut values: Vec<T::Native> = Vec::with_capacity(slots.count());
    let mut nulls = NullBufferBuilder::new(slots.count());
    slots.each(data, |slot| {
        match slot {
            Some(slot) => match T::read(data, slot.at) {
                Some(value) => {
                    values.push(value);
                    nulls.append_non_null();
                }
                None => return wrong(OUT_OF_BOUNDS),
            },
            None => {
                values.push(T::Native::default());
                nulls.append_null();
            }
        }
        Ok(())
    })?;
    let array = PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls.finish());
    Ok(array.with_data_type(kind.clone()).into())
}

fn booleans(data: &[u8], slots: &impl Slots) -> Res<ArrayData> {
    let mut values = BooleanBufferBuilder::new(slots.count());
    let mut nulls = NullBufferBuilder::new(slots.count());
    slots.each(data, |slot| {
        let Some(slot) = slot else {
            values.append(false);
            nulls.append_null();
            return Ok(());
        };
        let Some(value) = data.get(slot.at) else { return wrong(OUT_OF_BOUNDS) };
        values.append(*value != 0);
        nulls.append_non_null();
        Ok(())
    })?;
    Ok(BooleanArray::new(values.finish(), nulls.finish()).into())
}

fn decimals(data: &[u8], slots: &impl Slots, kind: &DataType, precision: u8) -> Res<ArrayData> {
    let mut values: Vec<i128> = Vec::with_capacity(slots.count());
    let mut nulls = NullBufferBuilder::new(slots.count());
    slots.each(data, |slot| {
        let Some(slot) = slot else {
            values.push(0);
            nulls.append_null();
            return Ok(());
        };
        nulls.append_non_null();
        if precision <= LONG_DIGITS {
            values.push((word(data, slot.at)? as i64).into());
            return Ok(());
        }
        let region = region(data, slot)?;
        let digits = &data[region.start..region.end];
        if digits.is_empty() || digits.len() > 16 {
            return wrong("a decimal has no digits, or too many");
        }
        let mut all = [if digits[0] & 0x80 != 0 { 0xff } else { 0 }; 16];
        all[16 - digits.len()..].copy_from_slice(digits);
        values.push(i128::from_be_bytes(all));
        Ok(())
    })?;
    let array = PrimitiveArray::<Decimal128Type>::new(ScalarBuffer::from(values), nulls.finish());
    Ok(array.with_data_type(kind.clone()).into())
}

/// Values of variable length as they grow.
struct Grown {
    offsets: Vec<i32>,
    data: Vec<u8>,
    most: usize,
}

impl Grown {
    fn new(count: usize, most: usize) -> Grown {
        let mut offsets = Vec::with_capacity(count + 1);
        offsets.push(0);
        Grown { offsets, data: Vec::with_capacity(most.min(count * 16)), most }
    }

    #[inline(always)]
    fn push(&mut self, from: &[u8], region: Region) -> Res<()> {
        let end = self.data.len() + (region.end - region.start);
        if end > self.most {
            return wrong("values lie in one another");
        }
        match from.get(region.start..).and_then(|rest| rest.first_chunk::<SHORT>()) {
            Some(chunk) if region.end - region.start <= SHORT => {
                self.data.reserve(SHORT);
                // Safe because there is room for so many bytes, of which the first ones are kept: a copy of a known size
                // is quicker.
                unsafe {
                    std::ptr::copy_nonoverlapping(chunk.as_ptr(), self.data.as_mut_ptr().add(self.data.len()), SHORT);
                    self.data.set_len(end);
                }
            }
            _ => self.data.extend_from_slice(&from[region.start..region.end]),
        }
        self.close();
        Ok(())
    }

    #[inline(always)]
    fn close(&mut self) {
        self.offsets.push(self.data.len() as i32);
    }

    fn finish(self) -> (OffsetBuffer<i32>, Buffer) {
        (OffsetBuffer::new(ScalarBuffer::from(self.offsets)), Buffer::from_vec(self.data))
    }
}

fn bytes(data: &[u8], slots: &impl Slots, kind: &DataType) -> Res<ArrayData> {
    let mut grown = Grown::new(slots.count(), data.len());
    let mut nulls = NullBufferBuilder::new(slots.count());
    slots.each(data, |slot| match slot {
        Some(slot) => {
            nulls.append_non_null();
            grown.push(data, region(data, slot)?)
        }
        None => {
            nulls.append_null();
            grown.close();
            Ok(())
        }
    })?;
    let (offsets, values) = grown.finish();
    if kind == &DataType::Binary {
        return Ok(BinaryArray::new(offsets, values, nulls.finish()).into());
    }
    let cut = |at: &i32| values.get(*at as usize).is_some_and(|byte| *byte as i8 <= CONTINUES);
    if !values.is_ascii() && (simdutf8::basic::from_utf8(&values).is_err() || offsets.iter().any(cut)) {
        return wrong("a text isn't UTF-8");
    }
    // Safe because all of it is UTF-8, and no text ends within a character.
    Ok(unsafe { StringArray::new_unchecked(offsets, values, nulls.finish()) }.into())
}

/// A VARIANT: how many bytes the value has, as 32 bits; the value; its metadata.
pub fn variants(data: &[u8], slots: &impl Slots, kind: &DataType) -> Res<ArrayData> {
    let mut values = Grown::new(slots.count(), data.len());
    let mut metadata = Grown::new(slots.count(), data.len());
    let mut nulls = NullBufferBuilder::new(slots.count());
    slots.each(data, |slot| {
        let Some(slot) = slot else {
            nulls.append_null();
            values.close();
            metadata.close();
            return Ok(());
        };
        nulls.append_non_null();
        let region = region(data, slot)?;
        let Some((size, rest)) = data[region.start..region.end].split_first_chunk::<4>() else {
            return wrong("a VARIANT has no size");
        };
        let size = u32::from_le_bytes(*size) as usize;
        if size > rest.len() {
            return wrong(OUT_OF_BOUNDS);
        }
        let start = region.start + 4;
        values.push(data, Region { start, end: start + size })?;
        metadata.push(data, Region { start: start + size, end: region.end })
    })?;
    let children = [values, metadata].map(|grown| {
        let (offsets, values) = grown.finish();
        ArrayData::from(BinaryArray::new(offsets, values, None))
    });
    Ok(nested(kind, slots.count(), nulls.finish(), None, children.to_vec()))
}
