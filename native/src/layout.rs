//! A batch laid into memory that another process has mapped.
//!
//! The memory begins with a table: int64 rows, int32 nodes, int32 pieces; for each node (an array, before its children)
//! int64 length and nulls; for each piece (a buffer, as Arrow's messages order them) int64 offset and length. Offsets
//! are counted from the memory's begin. Numbers are in the machine's order.

use arrow_array::{Array, ArrayRef, BinaryViewArray, RecordBatch, UInt8Array};
use arrow_buffer::Buffer;
use arrow_data::{ArrayData, ByteView, MAX_INLINE_VIEW_LEN};
use arrow_pyarrow::ToPyArrow;
use arrow_schema::DataType;
use pyo3::prelude::*;

use crate::trusted::Trusted;
use crate::views::length;
use crate::{guarded, wrong};

const ALIGNMENT: usize = 64;

enum Piece<'a> {
    Bytes(&'a [u8]),
    /// The offsets of what views show when it lies one after another.
    Ends(&'a [u128]),
    /// What views of these buffers show, and its size.
    Values(&'a [u128], &'a [Buffer], usize),
}

impl Piece<'_> {
    fn len(&self) -> usize {
        match self {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Ends(views) => 4 * (views.len() + 1),
            Piece::Values(_, _, size) => *size,
        }
    }

    /// Writes it. `None` when a view shows what isn't there.
    fn write(&self, memory: &mut [u8]) -> Option<()> {
        match self {
            Piece::Bytes(bytes) => memory.copy_from_slice(bytes),
            Piece::Ends(views) => {
                let mut end = 0i32;
                let (first, rest) = memory.split_at_mut(4);
                first.copy_from_slice(&end.to_ne_bytes());
                for (room, view) in rest.chunks_exact_mut(4).zip(views.iter()) {
                    end += length(view) as i32;
                    room.copy_from_slice(&end.to_ne_bytes());
                }
            }
            Piece::Values(views, buffers, _) => {
                let mut rest = memory;
                for view in views.iter() {
                    let value = shown(view, buffers)?;
                    let (room, behind) = rest.split_at_mut(value.len());
                    room.copy_from_slice(value);
                    rest = behind;
                }
            }
        }
        Some(())
    }
}

fn shown<'a>(view: &'a u128, buffers: &'a [Buffer]) -> Option<&'a [u8]> {
    let size = length(view);
    if size as u32 <= MAX_INLINE_VIEW_LEN {
        // SAFETY: a view has 16 bytes, of which such a value has the ones behind the length.
        return Some(unsafe { BinaryViewArray::inline_value(view, size) });
    }
    let view = ByteView::from(*view);
    buffers.get(view.buffer_index as usize)?.get(view.offset as usize..)?.get(..size)
}

#[derive(Default)]
struct Layout<'a> {
    nodes: Vec<[i64; 2]>,
    pieces: Vec<Piece<'a>>,
}

impl<'a> Layout<'a> {
    /// Adds a column. `None` when it can't be laid out without a change.
    fn add_column(&mut self, data: &'a ArrayData) -> Option<()> {
        if !matches!(data.data_type(), DataType::BinaryView | DataType::Utf8View) {
            return self.add(data);
        }
        let valid = self.add_node(data)?;
        let views = data.buffers()[0].typed_data::<u128>().get(data.offset()..)?.get(..data.len())?;
        let size: usize = views.iter().map(length).sum();
        i32::try_from(size).ok()?;
        self.pieces.extend([Piece::Bytes(valid), Piece::Ends(views), Piece::Values(views, &data.buffers()[1..], size)]);
        Some(())
    }

    /// Adds an array's length and nulls. Returns its bits that tell which values aren't null.
    fn add_node(&mut self, data: &'a ArrayData) -> Option<&'a [u8]> {
        self.nodes.push([data.len() as i64, data.null_count() as i64]);
        match data.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) if nulls.offset() != 0 => None,
            Some(nulls) => Some(nulls.validity()),
            None => Some(&[]),
        }
    }

    fn add(&mut self, data: &'a ArrayData) -> Option<()> {
        let laid_out_alike = !matches!(
            data.data_type(),
            DataType::Null
                | DataType::BinaryView
                | DataType::Utf8View
                | DataType::ListView(_)
                | DataType::LargeListView(_)
                | DataType::Union(_, _)
                | DataType::Dictionary(_, _)
                | DataType::RunEndEncoded(_, _)
        );
        if !laid_out_alike || data.offset() != 0 {
            return None;
        }
        let valid = self.add_node(data)?;
        self.pieces.push(Piece::Bytes(valid));
        self.pieces.extend(data.buffers().iter().map(|buffer| Piece::Bytes(buffer)));
        data.child_data().iter().try_for_each(|child| self.add(child))
    }

    /// Where it ends.
    fn end(&self) -> usize {
        let table = 16 + 16 * (self.nodes.len() + self.pieces.len());
        self.pieces.iter().fold(table, |at, piece| at.next_multiple_of(ALIGNMENT) + piece.len())
    }

    /// Writes it. `None` when a view shows what isn't there.
    fn write(&self, rows: usize, memory: &mut [u8]) -> Option<()> {
        let mut at = 16 + 16 * (self.nodes.len() + self.pieces.len());
        let mut table = Vec::with_capacity(at);
        table.extend_from_slice(&(rows as i64).to_ne_bytes());
        table.extend_from_slice(&(self.nodes.len() as i32).to_ne_bytes());
        table.extend_from_slice(&(self.pieces.len() as i32).to_ne_bytes());
        self.nodes.iter().flatten().for_each(|number| table.extend_from_slice(&number.to_ne_bytes()));
        for piece in &self.pieces {
            at = at.next_multiple_of(ALIGNMENT);
            let end = at + piece.len();
            piece.write(memory.get_mut(at..end)?)?;
            table.extend_from_slice(&(at as i64).to_ne_bytes());
            table.extend_from_slice(&(piece.len() as i64).to_ne_bytes());
            at = end;
        }
        memory.get_mut(..table.len())?.copy_from_slice(&table);
        Some(())
    }
}

/// A batch as the codec has decoded it. Python learns what is in it only when it asks: a batch that is laid into memory is
/// described to nobody.
#[pyclass(module = "pyspark_pravega_native", frozen)]
pub struct Batch {
    pub rows: RecordBatch,
}

#[pymethods]
impl Batch {
    #[getter]
    fn num_rows(&self) -> usize {
        self.rows.num_rows()
    }

    /// The batch as a RecordBatch of pyarrow's, without a copy.
    fn to_arrow<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.rows.to_pyarrow(py)
    }

    /// As the function `lay`.
    fn lay(&self, memory: Trusted<ArrayData>, small: usize) -> PyResult<Option<usize>> {
        guarded(|| laid(&self.rows, memory.0, small))
    }
}

/// Lays a batch into memory: a uint8 array over memory that may be written to, and that nobody reads meanwhile. A column
/// of views becomes one of plain values.
///
/// Returns how many bytes it takes: where the memory has fewer, or these are at most `small`, nothing is written. None
/// when the batch is one of those whose arrays can't be laid out as they are, such as slices.
#[pyfunction]
pub fn lay(batch: Trusted<RecordBatch>, memory: Trusted<ArrayData>, small: usize) -> PyResult<Option<usize>> {
    guarded(|| laid(&batch.0, memory.0, small))
}

fn laid(batch: &RecordBatch, memory: ArrayData, small: usize) -> PyResult<Option<usize>> {
    let memory: ArrayRef = arrow_array::make_array(memory);
    let memory = memory.as_any().downcast_ref::<UInt8Array>().ok_or_else(|| wrong("no memory".into()))?;
    let datas: Vec<ArrayData> = batch.columns().iter().map(|column| column.to_data()).collect();
    let mut layout = Layout::default();
    if datas.iter().any(|data| layout.add_column(data).is_none()) {
        return Ok(None);
    }
    let size = layout.end();
    if size > memory.len() || size <= small {
        return Ok(Some(size));
    }
    // SAFETY: the caller has the memory mapped for writing, and lends it to nobody else meanwhile.
    let memory = unsafe { std::slice::from_raw_parts_mut(memory.values().as_ptr().cast_mut(), memory.len()) };
    Ok(layout.write(batch.num_rows(), memory).map(|()| size))
}
