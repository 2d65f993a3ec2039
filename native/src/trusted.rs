//! Arrays of pyarrow's that are taken as they are.
//!
//! `PyArrowType` looks through all that it takes: each offset, and each byte of each text. For arrays that this package or
//! pyarrow has made in this process that is a pass over the batch for nothing. What users hand over to be written comes
//! by `PyArrowType`.

use arrow_pyarrow::FromPyArrowUnchecked;
use pyo3::prelude::*;

pub struct Trusted<T>(pub T);

impl<T: FromPyArrowUnchecked> FromPyObject<'_, '_> for Trusted<T> {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        // SAFETY: pyarrow's arrays keep Arrow's rules, and so do ours.
        Ok(Trusted(unsafe { T::from_pyarrow_bound_unchecked(&value)? }))
    }
}
