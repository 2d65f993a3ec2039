//! The per-event loops of pyspark-pravega: events into Arrow batches and back.
//!
//! What is to be done is decided in Python, which hands over a plan; here is only the doing. Nothing panics across the
//! border: a panic is caught and becomes a Python error. An event that a plan can't read is told by its index; the plain
//! codec then says what is wrong with it.

mod avro;
mod avro_wire;
mod avro_write;
mod column;
mod events;
mod frames;
mod json;
mod json_text;
mod json_write;
mod layout;
mod numbers;
mod plan;
mod protobuf;
mod protobuf_check;
mod protobuf_wire;
mod protobuf_write;
mod routing;
mod row_values;
mod rows;
mod source;
mod time;
mod trusted;
mod views;

use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef, BinaryArray, LargeBinaryArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_pyarrow::{PyArrowType, ToPyArrow};
use arrow_schema::Schema;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::Value;

use column::{Bad, Col, Res};
use events::Events;
use source::Source;
use trusted::Trusted;

/// Runs something that can't be trusted not to panic.
fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(PyRuntimeError::new_err("the native codec failed")))
}

fn parsed(plan: &str) -> PyResult<Value> {
    serde_json::from_str(plan).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn wrong(reason: String) -> PyErr {
    PyValueError::new_err(reason)
}

enum Plan {
    Avro { record: avro::Record, padded: bool },
    Json(json::Object),
    Protobuf { message: protobuf::Message, padded: bool },
}

impl Plan {
    fn parse(value: &Value) -> Result<Plan, String> {
        let of = plan::get(value, "plan")?;
        let padded = plan::flag(value, "padded")?;
        Ok(match plan::text(value, "format")? {
            "avro" => Plan::Avro { record: avro::Record::parse(of)?, padded },
            "json" => Plan::Json(json::Object::parse(of)?),
            "protobuf" => Plan::Protobuf { message: protobuf::Message::parse(of)?, padded },
            other => return Err(format!("no format {other}")),
        })
    }

    #[inline]
    fn read(&mut self, columns: &mut [Col], body: &[u8], scratch: &mut Vec<u8>) -> Res<()> {
        match self {
            Plan::Avro { record, padded } => {
                let mut at = avro_wire::Cursor::new(body);
                record.read(columns, &mut at)?;
                let rest = at.rest;
                match rest.is_empty() || (*padded && rest.iter().all(|byte| *byte == 0)) {
                    true => Ok(()),
                    false => Err(Bad),
                }
            }
            Plan::Json(object) => object.event(columns, body, scratch),
            Plan::Protobuf { message, padded } => message.event(columns, body, *padded),
        }
    }
}

/// Decodes events into some of a table's columns, by one plan for each encoding id.
///
/// Threads may share one: what it works with is locked, and nothing in Python runs meanwhile.
#[pyclass(module = "pyspark_pravega_native", frozen)]
struct Decoder {
    bench: Mutex<Bench>,
}

/// What a decoder works with.
struct Bench {
    schema: Arc<Schema>,
    columns: Vec<Col>,
    /// For each column how many bytes the last events' texts or bytes had there on average.
    sizes: Vec<usize>,
    plans: Vec<Plan>,
    by_id: HashMap<i32, usize>,
    /// For events without header.
    bare: Option<usize>,
    /// Whether events may have a header.
    headers: bool,
    scratch: Vec<u8>,
}

#[pymethods]
impl Decoder {
    /// A decoder without plans, for columns of a schema, and for events that may have headers or never have one.
    #[new]
    fn new(schema: PyArrowType<Schema>, headers: bool) -> PyResult<Self> {
        guarded(|| {
            let schema = Arc::new(schema.0);
            let columns: Vec<Col> =
                schema.fields().iter().map(|field| Col::new(field)).collect::<Result<_, _>>().map_err(wrong)?;
            let (sizes, plans, by_id) = (vec![0; columns.len()], vec![], HashMap::new());
            let bench = Bench { schema, columns, sizes, plans, by_id, bare: None, headers, scratch: vec![] };
            Ok(Decoder { bench: Mutex::new(bench) })
        })
    }

    /// Adds what to do with events of an encoding id, or with those without header.
    #[pyo3(signature = (encoding_id, plan))]
    fn add(&self, encoding_id: Option<i32>, plan: &str) -> PyResult<()> {
        guarded(|| {
            let plan = Plan::parse(&parsed(plan)?).map_err(wrong)?;
            let mut bench = self.bench();
            let index = bench.plans.len();
            bench.plans.push(plan);
            match encoding_id {
                Some(id) => drop(bench.by_id.insert(id, index)),
                None => bench.bare = Some(index),
            }
            Ok(())
        })
    }

    /// The encoding ids for which there's no plan yet.
    fn unknown(&self, payloads: Trusted<ArrayData>) -> PyResult<Vec<i32>> {
        guarded(|| {
            let payloads = Events::new(payloads.0)?;
            let bench = self.bench();
            let (mut found, mut last) = (vec![], None);
            for index in 0..payloads.len() {
                if let [1, a, b, c, d, ..] = payloads.value(index) {
                    let id = i32::from_be_bytes([*a, *b, *c, *d]);
                    if last != Some(id) && !bench.by_id.contains_key(&id) && !found.contains(&id) {
                        found.push(id);
                    }
                    last = Some(id);
                }
            }
            Ok(found)
        })
    }

    /// Decodes as many events as it can. With `views_from` the batch is a `Batch`, whose columns of texts or bytes have views
    /// of the events' buffers where the last events' values had at least so many bytes on average; without it pyarrow's.
    ///
    /// Returns the batch, the index of the first event that can't be decoded (None when there's none), and the encoding
    /// id in its header where no plan is known for that one.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        payloads: Trusted<ArrayData>,
        views_from: Option<usize>,
    ) -> PyResult<(Bound<'py, PyAny>, Option<usize>, Option<i32>)> {
        let (batch, stopped) = guarded(|| {
            let payloads = Events::new(payloads.0)?;
            let mut bench = self.bench();
            let made = bench.run(&payloads, false, views_from);
            Ok((bench.taken(made.0)?, made.1.into_iter().next()))
        })?;
        let (index, id) = match stopped {
            Some((index, id)) => (Some(index), id),
            None => (None, None),
        };
        let batch = match views_from {
            Some(_) => Bound::new(py, layout::Batch { rows: batch })?.into_any(),
            None => batch.to_pyarrow(py)?,
        };
        Ok((batch, index, id))
    }

    /// Decodes the events that can be decoded.
    ///
    /// Returns the batch, and the indexes of the events that aren't in it.
    fn decode_good<'py>(
        &self,
        py: Python<'py>,
        payloads: Trusted<ArrayData>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (batch, bad) = guarded(|| {
            let payloads = Events::new(payloads.0)?;
            let mut bench = self.bench();
            let (rows, bad) = bench.run(&payloads, true, None);
            let bad: UInt64Array = bad.into_iter().map(|(index, _)| index as u64).collect();
            Ok((bench.taken(rows)?, bad))
        })?;
        Ok((batch.to_pyarrow(py)?, bad.to_data().to_pyarrow(py)?))
    }
}

impl Decoder {
    fn bench(&self) -> MutexGuard<'_, Bench> {
        // A panic under the lock leaves columns half filled; the next run empties them.
        self.bench.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bench {
    /// Decodes events up to the first bad one, or all good ones. Returns how many rows there are, and the bad ones.
    fn run(&mut self, payloads: &Events, all: bool, views_from: Option<usize>) -> (usize, Vec<(usize, Option<i32>)>) {
        let buffers = payloads.buffers();
        for (column, size) in self.columns.iter_mut().zip(&self.sizes) {
            // What a caught panic has left.
            column.truncate(0);
            column.view(views_from.filter(|least| size >= least).map(|_| buffers.as_slice()));
            column.reserve(payloads.len());
        }
        let (mut rows, mut bad) = (0, vec![]);
        let mut last: Option<(i32, usize)> = None;
        for index in 0..payloads.len() {
            let event = payloads.value(index);
            let (found, id, body) = match event {
                [1, a, b, c, d, body @ ..] if self.headers => {
                    let id = i32::from_be_bytes([*a, *b, *c, *d]);
                    let found = match last {
                        Some((same, plan)) if same == id => Some(plan),
                        _ => self.by_id.get(&id).copied(),
                    };
                    last = found.map(|plan| (id, plan));
                    (found, Some(id), body)
                }
                _ => (self.bare, None, event),
            };
            let read = match found {
                Some(plan) => self.plans[plan].read(&mut self.columns, body, &mut self.scratch).map_err(|_| None),
                None => Err(id),
            };
            match read {
                Ok(()) => rows += 1,
                Err(unknown) => {
                    for column in &mut self.columns {
                        column.truncate(rows);
                    }
                    bad.push((index, unknown));
                    if !all {
                        break;
                    }
                }
            }
        }
        (rows, bad)
    }

    fn taken(&mut self, rows: usize) -> PyResult<RecordBatch> {
        self.sizes = self.columns.iter().map(Col::mean_size).collect();
        let fields = self.schema.fields().iter().zip(&self.columns);
        let fields: Vec<_> = fields.map(|(field, column)| column.shown_field(field)).collect();
        let arrays: Vec<ArrayRef> = self.columns.iter_mut().map(Col::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::new(Schema::new(fields));
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(|e| wrong(e.to_string()))
    }
}

enum Writer {
    Avro(Vec<(usize, avro_write::Node)>),
    Json(json::Object),
    Protobuf(protobuf::Message),
}

/// Encodes rows of a table's columns.
#[pyclass(module = "pyspark_pravega_native", frozen)]
struct Encoder {
    writer: Writer,
    header: Vec<u8>,
}

#[pymethods]
impl Encoder {
    /// An encoder by a plan; each event begins with the header.
    #[new]
    fn new(plan: &str, header: Vec<u8>) -> PyResult<Self> {
        guarded(|| {
            let value = parsed(plan)?;
            let of = plan::get(&value, "plan").map_err(wrong)?;
            let writer = match plan::text(&value, "format").map_err(wrong)? {
                "avro" => avro_write::fields(of).map(Writer::Avro),
                "json" => json::Object::parse(of).map(Writer::Json),
                "protobuf" => protobuf::Message::parse(of).map(Writer::Protobuf),
                other => Err(format!("no format {other}")),
            };
            Ok(Encoder { writer: writer.map_err(wrong)?, header })
        })
    }

    /// Encodes a batch. Returns a binary array, or None when a row can't be an event.
    fn encode<'py>(&self, py: Python<'py>, batch: PyArrowType<RecordBatch>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let made = guarded(|| {
            let batch = batch.0;
            let columns = batch.columns().iter().map(Source::new).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
            Ok(self.run(&columns, batch.num_rows()).ok())
        })?;
        made.map(|array| array.to_data().to_pyarrow(py)).transpose()
    }
}

impl Encoder {
    fn run(&self, columns: &[Source], rows: usize) -> Res<BinaryArray> {
        let mut data = Vec::with_capacity(rows * 64);
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0i32);
        for row in 0..rows {
            data.extend_from_slice(&self.header);
            match &self.writer {
                Writer::Avro(fields) => avro_write::write_fields(fields, columns, row, &mut data)?,
                Writer::Json(object) => object.write(columns, row, &mut data)?,
                Writer::Protobuf(message) => message.write(columns, row, &mut data)?,
            }
            offsets.push(i32::try_from(data.len()).map_err(|_| Bad)?);
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(BinaryArray::new(offsets, Buffer::from_vec(data), None))
    }
}

/// Frames of events, by the segment that takes each.
///
/// Takes a large binary array without nulls, a uint32 array with a part for each value, and how many parts there are;
/// returns a large binary array for each part, whose values are frames that lie one after another.
#[pyfunction]
fn frame_parts<'py>(
    py: Python<'py>,
    payloads: PyArrowType<ArrayData>,
    owners: PyArrowType<ArrayData>,
    count: usize,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let made = guarded(|| {
        let (payloads, owners) = (arrow_array::make_array(payloads.0), arrow_array::make_array(owners.0));
        let payloads = payloads.as_binary_opt::<i64>().ok_or_else(|| wrong("no large binary array".into()))?;
        let owners = owners.as_primitive_opt::<UInt32Type>().ok_or_else(|| wrong("no uint32 array".into()))?.values();
        let offsets = payloads.value_offsets();
        let data = payloads.value_data();
        let values = offsets.windows(2).map(|ends| &data[ends[0] as usize..ends[1] as usize]);
        if owners.len() != payloads.len() {
            return Err(wrong(format!("{} payloads, but {} owners", payloads.len(), owners.len())));
        }
        frames::parts(values, owners, count).ok_or_else(|| wrong("no such part, or a payload that is too long".into()))
    })?;
    made.into_iter()
        .map(|(bytes, offsets)| {
            let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
            LargeBinaryArray::new(offsets, Buffer::from_vec(bytes), None).to_data().to_pyarrow(py)
        })
        .collect()
}

/// Where routing keys lie in the key space: little-endian float64 as bytes. Takes a large binary array of
/// texts; null is "".
#[pyfunction]
fn key_fractions<'py>(py: Python<'py>, keys: PyArrowType<ArrayData>, seed: u64) -> PyResult<Bound<'py, PyBytes>> {
    let made = guarded(|| {
        let keys = arrow_array::make_array(keys.0);
        let keys = keys.as_binary_opt::<i64>().ok_or_else(|| wrong("no large binary array".into()))?;
        let mut units = vec![];
        let mut made = Vec::with_capacity(keys.len() * 8);
        let (offsets, data) = (keys.value_offsets(), keys.value_data());
        for index in 0..keys.len() {
            let range = offsets[index] as usize..offsets[index + 1] as usize;
            let key: &[u8] = if keys.is_null(index) { &[] } else { &data[range] };
            let hash = routing::fraction(key, seed, &mut units).ok_or_else(|| wrong("a key isn't UTF-8".into()))?;
            made.extend_from_slice(&hash.to_le_bytes());
        }
        Ok(made)
    })?;
    Ok(PyBytes::new(py, &made))
}

#[pymodule]
fn pyspark_pravega_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // What pyspark_pravega.frames.native_module.INTERFACE asks for.
    module.add("INTERFACE", 9)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Decoder>()?;
    module.add_class::<Encoder>()?;
    module.add_class::<layout::Batch>()?;
    module.add_class::<rows::RowReader>()?;
    module.add_function(wrap_pyfunction!(frame_parts, module)?)?;
    module.add_function(wrap_pyfunction!(key_fractions, module)?)?;
    module.add_function(wrap_pyfunction!(events::compact, module)?)?;
    module.add_function(wrap_pyfunction!(events::header_ids, module)?)?;
    module.add_function(wrap_pyfunction!(events::split, module)?)?;
    module.add_function(wrap_pyfunction!(layout::lay, module)?)
}
