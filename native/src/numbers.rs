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
