//! Rows as they lie in the memory of Spark's JVM, into Arrow columns: whole columns at a time.
//!
//! The layout is that of org.apache.spark.sql.catalyst.expressions.UnsafeRow, UnsafeArrayData and UnsafeMapData;
//! `spark/unsafe_rows.py` has it in words. Nothing of a row is believed: each region is checked against the
//! row, array or map that it lies in, and all items of a column against the bytes that there are.

use std::sync::Arc;

use arrow_array::{make_array, RecordBatch};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder};
use arrow_data::ArrayData;
use arrow_pyarrow::{PyArrowType, ToPyArrow};
use arrow_schema::{DataType, Field, Fields, Schema};
use pyo3::prelude::*;

use crate::events::Events;
use crate::row_values::{of_values, variants};
use crate::{guarded, wrong as failed};

/// What isn't laid out as it should be.
pub struct Wrong(String);

pub type Res<T> = Result<T, Wrong>;

pub fn wrong<T>(reason: &str) -> Res<T> {
    Err(Wrong(reason.into()))
}

const WORD: usize = 8;
pub const OUT_OF_BOUNDS: &str = "a value doesn't lie within its row";

/// Where a row or an array lies in the bytes.
#[derive(Clone, Copy)]
pub struct Region {
    pub start: usize,
    pub end: usize,
}

/// Where a value's slot is, and what it lies in.
#[derive(Clone, Copy)]
pub struct Slot {
    pub at: usize,
    within: Region,
}

/// The slots of a column's values, one after another.
pub trait Slots {
    fn count(&self) -> usize;

    /// Calls with each slot; None for null.
    fn each(&self, data: &[u8], take: impl FnMut(Option<Slot>) -> Res<()>) -> Res<()>;
}

/// A field of rows, or of structs, of which some may be null.
struct FieldSlots<'a> {
    rows: &'a [Option<Region>],
    null_word: usize,
    null_bit: u32,
    value: usize,
    /// Whether a null bit of the field's is set anywhere.
    nulls: bool,
}

impl Slots for FieldSlots<'_> {
    fn count(&self) -> usize {
        self.rows.len()
    }

    #[inline(always)]
    fn each(&self, data: &[u8], mut take: impl FnMut(Option<Slot>) -> Res<()>) -> Res<()> {
        for row in self.rows {
            let Some(within) = *row else {
                take(None)?;
                continue;
            };
            if self.nulls && word(data, within.start + self.null_word)? >> self.null_bit & 1 != 0 {
                take(None)?;
            } else {
                take(Some(Slot { at: within.start + self.value, within }))?;
            }
        }
        Ok(())
    }
}

/// The elements of arrays, one array after another.
struct Elements {
    arrays: Vec<(Region, usize)>,
    count: usize,
    width: usize,
}

impl Slots for Elements {
    fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    fn each(&self, data: &[u8], mut take: impl FnMut(Option<Slot>) -> Res<()>) -> Res<()> {
        for &(within, count) in &self.arrays {
            let first = within.start + header(count);
            for index in 0..count {
                let bits = word(data, within.start + WORD + (index >> 6) * WORD)?;
                if bits >> (index & 63) & 1 != 0 {
                    take(None)?;
                } else {
                    take(Some(Slot { at: first + index * self.width, within }))?;
                }
            }
        }
        Ok(())
    }
}

/// Bytes of an array before its first element: how many there are, and their null bits.
fn header(count: usize) -> usize {
    WORD + count.div_ceil(64) * WORD
}

#[inline(always)]
pub fn word(data: &[u8], at: usize) -> Res<u64> {
    match data.get(at..).and_then(|rest| rest.first_chunk::<WORD>()) {
        Some(bytes) => Ok(u64::from_le_bytes(*bytes)),
        None => wrong(OUT_OF_BOUNDS),
    }
}

/// Takes rows apart that lie as they do in the memory of Spark's JVM.
#[pyclass(module = "pyspark_pravega_native", frozen)]
pub struct RowReader {
    schema: Arc<Schema>,
}

#[pymethods]
impl RowReader {
    /// A reader of rows with the columns of a schema, whose types tell how they lie.
    #[new]
    fn new(schema: PyArrowType<Schema>) -> Self {
        RowReader { schema: Arc::new(schema.0) }
    }

    /// A batch of rows.
    ///
    /// Takes a binary array whose one value are the rows, one after another, and perhaps more behind them; and one whose
    /// one value are their sizes in bytes, 32 bits each, little-endian. A row that isn't laid out as it should be is a
    /// ValueError.
    fn read<'py>(
        &self,
        py: Python<'py>,
        rows: PyArrowType<ArrayData>,
        sizes: PyArrowType<ArrayData>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batch = guarded(|| {
            let (rows, sizes) = (Events::new(rows.0)?, Events::new(sizes.0)?);
            if rows.len() != 1 || sizes.len() != 1 {
                return Err(failed("no rows, or sizes for others".into()));
            }
            unpack(rows.value(0), sizes.value(0), &self.schema).map_err(|wrong| failed(wrong.0))
        })?;
        batch.to_pyarrow(py)
    }
}

/// Rows that lie one after another as Arrow columns.
///
/// Takes the rows' bytes, and how many each row has.
fn unpack(data: &[u8], sizes: &[u8], schema: &Arc<Schema>) -> Res<RecordBatch> {
    let fields = schema.fields();
    let least = fixed_size(fields.len());
    let mut rows = Vec::with_capacity(sizes.len() / 4);
    let mut end = 0usize;
    for size in sizes.chunks_exact(4) {
        let size = u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize;
        let start = end;
        end += size;
        if size < least || !size.is_multiple_of(WORD) || end > data.len() {
            return Err(Wrong(format!("row {} has {size} bytes", rows.len())));
        }
        rows.push(Some(Region { start, end }));
    }
    let data = &data[..end];
    let columns = of_rows(data, &rows, fields)?.into_iter().map(make_array).collect();
    // Safe because columns are of the schema's types, and as long as there are rows. Nulls where there may be none are
    // told by who knows the table.
    Ok(unsafe { RecordBatch::new_unchecked(schema.clone(), columns, rows.len()) })
}

/// Bytes of a row's null bits and words.
fn fixed_size(fields: usize) -> usize {
    (fields.div_ceil(64) + fields) * WORD
}

/// The fields of rows or structs.
fn of_rows(data: &[u8], rows: &[Option<Region>], fields: &Fields) -> Res<Vec<ArrayData>> {
    let null_words = fields.len().div_ceil(64);
    let mut any_null = vec![0u64; null_words];
    for row in rows.iter().flatten() {
        for (index, any) in any_null.iter_mut().enumerate() {
            *any |= word(data, row.start + index * WORD)?;
        }
    }
    fields
        .iter()
        .enumerate()
        .map(|(index, field)| {
            let slots = FieldSlots {
                rows,
                null_word: (index >> 6) * WORD,
                null_bit: (index & 63) as u32,
                value: (null_words + index) * WORD,
                nulls: any_null[index >> 6] >> (index & 63) & 1 != 0,
            };
            column(data, &slots, field)
        })
        .collect()
}

fn column(data: &[u8], slots: &impl Slots, field: &Field) -> Res<ArrayData> {
    let kind = field.data_type();
    match kind {
        DataType::Struct(fields) if is_variant(fields) => variants(data, slots, kind),
        DataType::Struct(fields) => structs(data, slots, kind, fields),
        DataType::List(item) => lists(data, slots, kind, item),
        DataType::Map(entries, _) => maps(data, slots, kind, entries),
        _ => of_values(data, slots, kind),
    }
}

/// Where a value of variable length lies, by the word in its slot: offset and size.
#[inline(always)]
pub fn region(data: &[u8], slot: Slot) -> Res<Region> {
    let told = word(data, slot.at)?;
    let (offset, size) = ((told >> 32) as usize, told as u32 as usize);
    let start = slot.within.start + offset;
    let end = start + size;
    if end > slot.within.end || !offset.is_multiple_of(WORD) {
        return wrong(OUT_OF_BOUNDS);
    }
    Ok(Region { start, end })
}

/// Whether a struct is how Arrow has a VARIANT (Spark marks the second field).
fn is_variant(fields: &Fields) -> bool {
    fields.len() == 2 && fields[1].metadata().get("variant").is_some_and(|value| value == "true")
}

fn structs(data: &[u8], slots: &impl Slots, kind: &DataType, fields: &Fields) -> Res<ArrayData> {
    let mut rows = Vec::with_capacity(slots.count());
    let mut nulls = NullBufferBuilder::new(slots.count());
    slots.each(data, |slot| {
        let Some(slot) = slot else {
            rows.push(None);
            nulls.append_null();
            return Ok(());
        };
        let row = region(data, slot)?;
        if row.end - row.start < fixed_size(fields.len()) {
            return wrong("a struct has no place for its fields");
        }
        rows.push(Some(row));
        nulls.append_non_null();
        Ok(())
    })?;
    let children = of_rows(data, &rows, fields)?;
    Ok(nested(kind, rows.len(), nulls.finish(), None, children))
}

/// An array's elements, and the end of them in all arrays so far.
fn array(data: &[u8], region: Region, elements: &mut Elements) -> Res<()> {
    let count = word(data, region.start)?;
    let room = region.end - region.start;
    // Each element has a byte at least: so the product is none that wraps around.
    if count > room as u64 || header(count as usize) + count as usize * elements.width > room {
        return wrong("an array has no place for its elements");
    }
    elements.count += count as usize;
    if elements.count > data.len() {
        return wrong("values lie in one another");
    }
    elements.arrays.push((region, count as usize));
    Ok(())
}

fn elements_of(field: &Field, arrays: usize) -> Elements {
    let width = match field.data_type() {
        DataType::Boolean | DataType::Int8 => 1,
        DataType::Int16 => 2,
        DataType::Int32 | DataType::Date32 | DataType::Float32 => 4,
        _ => WORD,
    };
    Elements { arrays: Vec::with_capacity(arrays), count: 0, width }
}

fn lists(data: &[u8], slots: &impl Slots, kind: &DataType, item: &Field) -> Res<ArrayData> {
    let mut elements = elements_of(item, slots.count());
    let mut offsets = Vec::with_capacity(slots.count() + 1);
    offsets.push(0i32);
    let mut nulls = NullBufferBuilder::new(slots.count());
    slots.each(data, |slot| {
        match slot {
            Some(slot) => {
                array(data, region(data, slot)?, &mut elements)?;
                nulls.append_non_null();
            }
            None => nulls.append_null(),
        }
        offsets.push(elements.count as i32);
        Ok(())
    })?;
    let items = column(data, &elements, item)?;
    Ok(nested(kind, slots.count(), nulls.finish(), Some(offsets), vec![items]))
}

/// A map: how many bytes the array of its keys has; this array; that of its values.
fn maps(data: &[u8], slots: &impl Slots, kind: &DataType, entries: &Field) -> Res<ArrayData> {
    let DataType::Struct(parts) = entries.data_type() else { return wrong("a map of no entries") };
    let [key, value] = &parts[..] else { return wrong("a map of no entries") };
    let (mut keys, mut values) = (elements_of(key, slots.count()), elements_of(value, slots.count()));
    let mut offsets = Vec::with_capacity(slots.count() + 1);
    offsets.push(0i32);
    let mut nulls = NullBufferBuilder::new(slots.count());
    slots.each(data, |slot| {
        match slot {
            Some(slot) => {
                let map = region(data, slot)?;
                let start = map.start + WORD;
                let size = word(data, map.start)?;
                if map.end < start || size > (map.end - start) as u64 || !size.is_multiple_of(WORD as u64) {
                    return wrong(OUT_OF_BOUNDS);
                }
                let middle = start + size as usize;
                array(data, Region { start, end: middle }, &mut keys)?;
                array(data, Region { start: middle, end: map.end }, &mut values)?;
                if keys.count != values.count {
                    return wrong("a map has more keys than values, or fewer");
                }
                nulls.append_non_null();
            }
            None => nulls.append_null(),
        }
        offsets.push(keys.count as i32);
        Ok(())
    })?;
    let (keys, values) = (column(data, &keys, key)?, column(data, &values, value)?);
    if keys.null_count() > 0 {
        return wrong("a key of a map is null");
    }
    let pairs = nested(entries.data_type(), keys.len(), None, None, vec![keys, values]);
    Ok(nested(kind, slots.count(), nulls.finish(), Some(offsets), vec![pairs]))
}

pub fn nested(
    kind: &DataType,
    count: usize,
    nulls: Option<NullBuffer>,
    offsets: Option<Vec<i32>>,
    children: Vec<ArrayData>,
) -> ArrayData {
    let mut builder = ArrayData::builder(kind.clone()).len(count).nulls(nulls).child_data(children);
    if let Some(offsets) = offsets {
        builder = builder.add_buffer(Buffer::from_vec(offsets));
    }
    // Safe because offsets only grow up to the number of items, and children have the lengths that they should have.
    unsafe { builder.build_unchecked() }
}
