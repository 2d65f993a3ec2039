//! Event frames as they lie in a segment: `int32 0 | int32 length | payload`, big-endian.

const HEADER: usize = 8;

/// Finds whole frames: where each begins, where the last one ends, and whether something else than a frame follows.
pub fn scan(data: &[u8], limit: usize) -> (Vec<i64>, usize, bool) {
    let mut starts = Vec::with_capacity((data.len() / 64).min(limit));
    let mut at = 0;
    while starts.len() < limit {
        let Some(head) = data.get(at..at + HEADER) else { break };
        let kind = i32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let length = i32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        if kind != 0 || length < 0 {
            return (starts, at, true);
        }
        let end = at + HEADER + length as usize;
        if end > data.len() {
            break;
        }
        starts.push(at as i64);
        at = end;
    }
    (starts, at, false)
}
