"""Events in their frames, as streams hold them: bytes to Arrow arrays of events and back.

`framing` does it, in Rust where `native_module` finds the native wheel; `ragged` makes arrays of bytes of many lengths;
`bad_events` says which event is bad; `pandas_later` keeps pyarrow from loading pandas. It uses errors only: client and
serde stand on it.
"""
