//! Events as arrays: their bytes one after another, or views of the buffers in which they were found.

use arrow_array::{Array, ArrayRef, BinaryArray, BinaryViewArray, Int64Array};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_pyarrow::ToPyArrow;
use arrow_schema::DataType;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::trusted::Trusted;
use crate::views::length;
use crate::{frames, guarded, wrong};

pub enum Events {
    Compact(BinaryArray),
    Views(BinaryViewArray),
}

impl Events {
    pub fn new(data: ArrayData) -> PyResult<Events> {
        match data.data_type() {
            DataType::Binary => Ok(Events::Compact(BinaryArray::from(data))),
            DataType::BinaryView => Ok(Events::Views(BinaryViewArray::from(data))),
            other => Err(wrong(format!("no events are of type {other}"))),
        }
    }

    /// The buffers in which the events are.
    pub fn buffers(&self) -> Vec<Buffer> {
        match self {
            Events::Compact(array) => vec![array.values().clone()],
            Events::Views(array) => array.data_buffers().to_vec(),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Events::Compact(array) => array.len(),
            Events::Views(array) => array.len(),
        }
    }

    #[inline(always)]
    pub fn value(&self, index: usize) -> &[u8] {
        match self {
            Events::Compact(array) => array.value(index),
            Events::Views(array) => array.value(index),
        }
    }

    fn values(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.value(index))
    }

    /// Where each event begins when they lie one after another, and the last one's end. `None` when they are more than
    /// offsets of 32 bits can tell.
    fn offsets(&self) -> Option<Vec<i32>> {
        let mut offsets = Vec::with_capacity(self.len() + 1);
        let mut end = 0i64;
        offsets.push(0);
        let mut add = |size: usize| {
            end += size as i64;
            offsets.push(end as i32);
        };
        match self {
            Events::Compact(array) => {
                array.value_offsets().windows(2).for_each(|ends| add((ends[1] - ends[0]) as usize))
            }
            Events::Views(array) => array.views().iter().for_each(|view| add(length(view))),
        }
        (end <= i64::from(i32::MAX)).then_some(offsets)
    }
}

fn bytes_of(array: ArrayData) -> PyResult<Buffer> {
    let array: ArrayRef = arrow_array::make_array(array);
    let data = array.as_any().downcast_ref::<arrow_array::UInt8Array>();
    Ok(data.ok_or_else(|| wrong("no bytes".into()))?.values().inner().clone())
}

/// The whole frames at the head of a segment's bytes, at most `limit` of them. The bytes come in two parts, of which the
/// first one holds one whole frame, or nothing.
///
/// Returns their payloads as views of the parts, where each frame begins (an int64 array), how many bytes the frames
/// are, and whether what follows can't be the beginning of a frame; None when there are more than 2 GiB.
#[pyfunction]
pub fn split<'py>(
    py: Python<'py>,
    first: Trusted<ArrayData>,
    rest: Trusted<ArrayData>,
    limit: usize,
) -> PyResult<Option<Split<'py>>> {
    let made = guarded(|| {
        let parts = [bytes_of(first.0)?, bytes_of(rest.0)?];
        let Some(found) = frames::split(&parts[0], &parts[1], limit) else { return Ok(None) };
        // SAFETY: each view was made of a slice of the part that it names.
        let payloads = unsafe { BinaryViewArray::new_unchecked(ScalarBuffer::from(found.views), parts.into(), None) };
        Ok(Some((payloads, Int64Array::from(found.starts), found.end, found.broken)))
    })?;
    made.map(|(payloads, starts, end, broken)| {
        Ok((payloads.to_data().to_pyarrow(py)?, starts.to_data().to_pyarrow(py)?, end, broken))
    })
    .transpose()
}

type Split<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, usize, bool);

/// Events one after another, as a binary array. None when there are more than 2 GiB of them.
#[pyfunction]
pub fn compact<'py>(py: Python<'py>, events: Trusted<ArrayData>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let made = guarded(|| {
        let events = Events::new(events.0)?;
        Ok(events.offsets().map(|offsets| {
            let mut data = Vec::with_capacity(offsets[events.len()] as usize);
            events.values().for_each(|value| data.extend_from_slice(value));
            BinaryArray::new(OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(data), None)
        }))
    })?;
    made.map(|array| array.to_data().to_pyarrow(py)).transpose()
}

/// The encoding ids in the events' headers (little-endian int32 as bytes), and a byte for each event that tells whether
/// there is one.
#[pyfunction]
pub fn header_ids<'py>(
    py: Python<'py>,
    events: Trusted<ArrayData>,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let (ids, present) = guarded(|| {
        let events = Events::new(events.0)?;
        let (mut ids, mut present) = (Vec::with_capacity(4 * events.len()), Vec::with_capacity(events.len()));
        for value in events.values() {
            let id = match value {
                [1, a, b, c, d, ..] => Some(i32::from_be_bytes([*a, *b, *c, *d])),
                _ => None,
            };
            ids.extend_from_slice(&id.unwrap_or(0).to_le_bytes());
            present.push(u8::from(id.is_some()));
        }
        Ok((ids, present))
    })?;
    Ok((PyBytes::new(py, &ids), PyBytes::new(py, &present)))
}
