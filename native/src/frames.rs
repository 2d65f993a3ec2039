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

/// Puts each payload into a frame, and the frames of each part one after another: bytes, and where each frame begins,
/// and the last one's end. `None` when a payload's part doesn't exist, or it is too long for a frame.
pub fn parts<'a>(
    payloads: impl Iterator<Item = &'a [u8]> + Clone,
    owners: &[u32],
    count: usize,
) -> Option<Vec<(Vec<u8>, Vec<i64>)>> {
    let mut sizes = vec![(0, 0); count];
    for (payload, owner) in payloads.clone().zip(owners) {
        let (bytes, frames) = sizes.get_mut(*owner as usize)?;
        *bytes += HEADER + payload.len();
        *frames += 1;
    }
    let mut made: Vec<(Vec<u8>, Vec<i64>)> = sizes
        .into_iter()
        .map(|(bytes, frames)| (Vec::with_capacity(bytes), Vec::with_capacity(frames + 1)))
        .collect();
    for (_, starts) in &mut made {
        starts.push(0);
    }
    for (payload, owner) in payloads.zip(owners) {
        let (bytes, ends) = &mut made[*owner as usize];
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&i32::try_from(payload.len()).ok()?.to_be_bytes());
        bytes.extend_from_slice(payload);
        ends.push(bytes.len() as i64);
    }
    Some(made)
}
