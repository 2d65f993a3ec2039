//! Where routing keys lie in the key space: murmur3 x64 128 of their UTF-16LE bytes, first half, its top 52 bits.

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// A key's hash in [0, 1), or None when it isn't UTF-8. `units` is room to work in.
pub fn fraction(key: &[u8], seed: u64, units: &mut Vec<u8>) -> Option<f64> {
    let hash = if key.is_ascii() {
        of_ascii(key, seed)
    } else {
        units.clear();
        for unit in std::str::from_utf8(key).ok()?.encode_utf16() {
            units.extend_from_slice(&unit.to_le_bytes());
        }
        of_units(units, seed)
    };
    // 52 bits fit a double without rounding.
    Some((hash >> 12) as f64 / (1u64 << 52) as f64)
}

fn of_units(data: &[u8], seed: u64) -> u64 {
    let mut state = State { h1: seed, h2: seed };
    let mut blocks = data.chunks_exact(16);
    for block in &mut blocks {
        state.add(word(&block[..8]), word(&block[8..]));
    }
    let mut rest = [0u8; 16];
    rest[..blocks.remainder().len()].copy_from_slice(blocks.remainder());
    state.end(word(&rest[..8]), word(&rest[8..]), data.len())
}

/// As `of_units` of the UTF-16 of ASCII characters, which are never written anywhere.
fn of_ascii(key: &[u8], seed: u64) -> u64 {
    let mut state = State { h1: seed, h2: seed };
    let mut blocks = key.chunks_exact(8);
    for block in &mut blocks {
        let eight = word(block);
        state.add(spread(eight as u32), spread((eight >> 32) as u32));
    }
    let mut rest = [0u8; 8];
    rest[..blocks.remainder().len()].copy_from_slice(blocks.remainder());
    let rest = word(&rest);
    state.end(spread(rest as u32), spread((rest >> 32) as u32), 2 * key.len())
}

/// Four bytes with a zero behind each.
fn spread(bytes: u32) -> u64 {
    let two = (u64::from(bytes) | u64::from(bytes) << 16) & 0x0000_ffff_0000_ffff;
    (two | two << 8) & 0x00ff_00ff_00ff_00ff
}

struct State {
    h1: u64,
    h2: u64,
}

impl State {
    #[inline(always)]
    fn add(&mut self, one: u64, two: u64) {
        self.h1 ^= first(one);
        self.h1 = self.h1.rotate_left(27).wrapping_add(self.h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        self.h2 ^= second(two);
        self.h2 = self.h2.rotate_left(31).wrapping_add(self.h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }

    /// The hash, after a last block that is filled up with zeros: they mix to zero. `size` is that of all, in bytes.
    #[inline(always)]
    fn end(self, one: u64, two: u64, size: usize) -> u64 {
        let (mut h1, mut h2) = (self.h1 ^ first(one) ^ size as u64, self.h2 ^ second(two) ^ size as u64);
        h1 = h1.wrapping_add(h2);
        h2 = h2.wrapping_add(h1);
        finish(h1).wrapping_add(finish(h2))
    }
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn first(word: u64) -> u64 {
    word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn second(word: u64) -> u64 {
    word.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut value: u64) -> u64 {
    value = (value ^ value >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    value = (value ^ value >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ value >> 33
}
