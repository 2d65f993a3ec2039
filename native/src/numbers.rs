//! Numbers as they are written in decimal digits.

use crate::column::{Bad, Res};

/// Where a number that begins at `start` ends.
#[inline]
pub fn number_end(data: &[u8], start: usize) -> Res<usize> {
    let digits = |mut at: usize| {
        while data.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut at = start + usize::from(data.get(start) == Some(&b'-'));
    let whole = at;
    at = digits(at);
    if at == whole || (data[whole] == b'0' && at > whole + 1) {
        return Err(Bad);
    }
    if data.get(at) == Some(&b'.') {
        let fraction = at + 1;
        at = digits(fraction);
        if at == fraction {
            return Err(Bad);
        }
    }
    if matches!(data.get(at), Some(b'e' | b'E')) {
        let exponent = at + 1 + usize::from(matches!(data.get(at + 1), Some(b'+' | b'-')));
        at = digits(exponent);
        if at == exponent {
            return Err(Bad);
        }
    }
    Ok(at)
}

/// A number of few digits and without an exponent: its digits, and how many of them are behind the point.
pub struct Short {
    pub value: i64,
    pub fraction: usize,
    /// Where it ends.
    pub end: usize,
}

/// So many digits are always less than 2^63.
const MOST_SHORT: usize = 18;

/// The number that begins at `start`, if it is a short one: most are.
#[inline]
pub fn short(data: &[u8], start: usize) -> Option<Short> {
    let negative = data.get(start) == Some(&b'-');
    let whole = start + usize::from(negative);
    let (mut at, mut value, mut point) = (whole, 0i64, None);
    loop {
        match data.get(at) {
            // More digits than are short wrap, and are refused below.
            Some(digit @ b'0'..=b'9') => value = value.wrapping_mul(10).wrapping_add(i64::from(digit - b'0')),
            Some(b'.') if point.is_none() => point = Some(at),
            Some(b'.' | b'e' | b'E') => return None,
            _ => break,
        }
        at += 1;
    }
    let wholes = point.unwrap_or(at) - whole;
    let fraction = point.map_or(0, |point| at - point - 1);
    let is_number = wholes > 0 && (wholes == 1 || data[whole] != b'0') && (point.is_none() || fraction > 0);
    if !is_number || wholes + fraction > MOST_SHORT {
        return None;
    }
    Some(Short { value: if negative { -value } else { value }, fraction, end: at })
}

impl Short {
    /// It times 10^scale, if that is a whole number.
    #[inline]
    pub fn scaled(&self, scale: i32) -> Option<i128> {
        let shift = scale - self.fraction as i32;
        let factor = 10i64.checked_pow(shift.unsigned_abs())?;
        match shift {
            0.. => Some(i128::from(self.value) * i128::from(factor)),
            _ => (self.value % factor == 0).then(|| i128::from(self.value / factor)),
        }
    }
}

/// A number times 10^scale, if that is a whole number below the bound.
pub fn scaled(literal: &[u8], scale: i32, bound: i128) -> Res<i128> {
    let negative = literal.first() == Some(&b'-');
    let digits = &literal[usize::from(negative)..];
    let (mantissa, exponent) = match digits.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(e) => (&digits[..e], exponent(&digits[e + 1..])),
        None => (digits, 0),
    };
    let mut value = 0i128;
    let mut shift = exponent.saturating_add(i64::from(scale));
    let mut behind_point = false;
    // Zeros are counted and multiplied in only when a digit follows, so that any number of them may stand at the end.
    let mut zeros = 0u32;
    for byte in mantissa {
        match byte {
            b'.' => behind_point = true,
            digit => {
                shift -= i64::from(behind_point);
                if *digit == b'0' {
                    zeros += u32::from(value != 0);
                    continue;
                }
                let factor = 10i128.checked_pow(zeros + 1).ok_or(Bad)?;
                value = value.checked_mul(factor).and_then(|v| v.checked_add(i128::from(digit - b'0'))).ok_or(Bad)?;
                zeros = 0;
            }
        }
    }
    if value == 0 {
        return Ok(0);
    }
    shift = shift.saturating_add(i64::from(zeros));
    let factor = u32::try_from(shift).ok().and_then(|shift| 10i128.checked_pow(shift)).ok_or(Bad)?;
    let value = value.checked_mul(factor).filter(|value| *value < bound).ok_or(Bad)?;
    Ok(if negative { -value } else { value })
}

fn exponent(digits: &[u8]) -> i64 {
    let negative = digits.first() == Some(&b'-');
    let value = digits
        .iter()
        .filter(|byte| byte.is_ascii_digit())
        .fold(0i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    if negative {
        -value
    } else {
        value
    }
}
