//! Where routing keys lie in the key space: murmur3 x64 128 of their UTF-16LE bytes, first half, its top 52 bits.

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// A key's place in [0, 1). `units` is room to work in.
pub fn fraction(key: &str, seed: u64, units: &mut Vec<u8>) -> f64 {
    units.clear();
    if key.is_ascii() {
        units.resize(2 * key.len(), 0);
        for (unit, byte) in units.chunks_exact_mut(2).zip(key.bytes()) {
            unit[0] = byte;
        }
    } else {
        for unit in key.encode_utf16() {
            units.extend_from_slice(&unit.to_le_bytes());
        }
    }
    // 52 bits fit a double without rounding.
    (hash(units, seed) >> 12) as f64 / (1u64 << 52) as f64
}

fn hash(data: &[u8], seed: u64) -> u64 {
    let (mut h1, mut h2) = (seed, seed);
    let mut blocks = data.chunks_exact(16);
    for block in &mut blocks {
        h1 ^= first(word(&block[..8]));
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= second(word(&block[8..]));
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    // Zeros mix to zero, so the last block may be filled up with them.
    let mut rest = [0u8; 16];
    rest[..blocks.remainder().len()].copy_from_slice(blocks.remainder());
    h1 ^= first(word(&rest[..8])) ^ data.len() as u64;
    h2 ^= second(word(&rest[8..])) ^ data.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    finish(h1).wrapping_add(finish(h2))
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
