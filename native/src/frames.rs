//! Event frames as they lie in a segment: `int32 0 | int32 length | payload`, big-endian.

use arrow_array::builder::make_view;

const HEADER: usize = 8;

/// The whole frames at the head of a segment's bytes.
pub struct Whole {
    /// Where each begins.
    pub starts: Vec<i64>,
    /// The payloads, as Arrow views of the bytes' two parts.
    pub views: Vec<u128>,
    /// Where the last frame ends.
    pub end: usize,
    /// Whether something else than a frame follows.
    pub broken: bool,
}

/// Finds at most `limit` whole frames in bytes that come in two parts: the first one holds one whole frame, or nothing.
/// `None` when a part is larger than views can tell.
pub fn split(first: &[u8], rest: &[u8], limit: usize) -> Option<Whole> {
    i32::try_from(first.len().max(rest.len())).ok()?;
    let likely = (rest.len() / 64).min(limit);
    let (starts, views) = (Vec::with_capacity(likely), Vec::with_capacity(likely));
    let mut found = Whole { starts, views, end: 0, broken: false };
    for (part, data) in [first, rest].into_iter().enumerate() {
        let (before, mut at) = (found.end, 0);
        while found.starts.len() < limit && !found.broken {
            let Some(head) = data[at..].first_chunk::<HEADER>() else { break };
            let kind = i32::from_be_bytes([head[0], head[1], head[2], head[3]]);
            let length = i32::from_be_bytes([head[4], head[5], head[6], head[7]]);
            if kind != 0 || length < 0 {
                found.broken = true;
                break;
            }
            let Some(payload) = data[at + HEADER..].get(..length as usize) else { break };
            found.views.push(make_view(payload, part as u32, (at + HEADER) as u32));
            found.starts.push((before + at) as i64);
            at += HEADER + payload.len();
        }
        found.end = before + at;
        if at < data.len() {
            // What follows doesn't come next.
            break;
        }
    }
    Some(found)
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
    let mut made: Vec<(Vec<u8>, Vec<i64>)> =
        sizes.into_iter().map(|(bytes, frames)| (Vec::with_capacity(bytes), Vec::with_capacity(frames + 1))).collect();
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
