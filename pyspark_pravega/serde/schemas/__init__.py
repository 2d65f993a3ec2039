"""The schemas of the formats as values: parsed, written, compared. `avro`, `json` (JSON Schema), `protobuf`; and
`fields`: where events have columns.

Each module is a face of its own, because the formats have things of the same name. It uses errors only.
"""
