//! Days and times of ISO 8601. A year from 0 to 9999 has four digits, another one a sign and as many as it needs.

/// Days since 1970 of a date of the (proleptic) Gregorian calendar.
/// Source: the calendar's cycle of 400 years has 146,097 days; counting from 1 March puts leap days last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let shifted = year - i64::from(month <= 2);
    let (cycle, of_cycle) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    cycle * 146_097 + of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + of_year - 719_468
}

/// Year, month and day of a number of days since 1970.
pub fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (cycle, of_cycle) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + cycle * 400 + i64::from(month <= 2), month, day)
}

/// A number of so many digits at an offset.
#[inline(always)]
fn digits(text: &[u8], at: usize, count: usize) -> Option<i64> {
    text.get(at..at + count)?
        .iter()
        .try_fold(0i64, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))
}

/// Days since 1970 of a text like 2024-01-31, +10000-01-01 or -0044-03-15.
pub fn date(text: &[u8]) -> Option<i32> {
    let (days, end) = day(text)?;
    (end == text.len()).then(|| i32::try_from(days).ok())?
}

/// Days since 1970 of the day that a text begins with, and where that ends.
#[inline(always)]
fn day(text: &[u8]) -> Option<(i64, usize)> {
    let signed = usize::from(matches!(text.first()?, b'+' | b'-'));
    let end = match signed {
        0 => 4,
        _ => 1 + text[1..].iter().take_while(|byte| byte.is_ascii_digit()).count(),
    };
    let year = digits(text, signed, end - signed)?;
    let year = match (text[0], end - signed) {
        (b'+', 5..=7) => year,
        (b'-', 4..=7) if year > 0 => -year,
        (b'+' | b'-', _) => return None,
        _ => year,
    };
    if text.get(end) != Some(&b'-') || text.get(end + 3) != Some(&b'-') {
        return None;
    }
    let (month, day) = (digits(text, end + 1, 2)?, digits(text, end + 4, 2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        _ => return None,
    };
    (1..=longest).contains(&day).then(|| (days(year, month, day), end + 6))
}

/// Microseconds since 1970 of a text like 2024-01-31T12:00:00.5Z, or of one without zone; what is finer is cut off.
pub fn moment(text: &[u8], zoned: bool) -> Option<i64> {
    let (day, end) = day(text)?;
    let text = &text[end..];
    if !matches!(text.first()?, b'T' | b't' | b' ') || *text.get(3)? != b':' {
        return None;
    }
    let (hours, minutes) = (digits(text, 1, 2)?, digits(text, 4, 2)?);
    let (mut seconds, mut micros, mut at) = (0, 0, 6);
    if text.get(at) == Some(&b':') {
        seconds = digits(text, 7, 2)?;
        at = 9;
        if text.get(at) == Some(&b'.') {
            let count = text[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            if !(1..=9).contains(&count) {
                return None;
            }
            let value = digits(text, at + 1, count)?;
            micros = if count <= 6 { value * 10i64.pow(6 - count as u32) } else { value / 10i64.pow(count as u32 - 6) };
            at += 1 + count;
        }
    }
    let offset = match text.get(at..)? {
        [] if !zoned => 0,
        [b'Z' | b'z'] if zoned => 0,
        [sign @ (b'+' | b'-'), rest @ ..] if zoned => {
            let (hours, minutes) = match rest.len() {
                2 => (digits(rest, 0, 2)?, 0),
                4 => (digits(rest, 0, 2)?, digits(rest, 2, 2)?),
                5 if rest[2] == b':' => (digits(rest, 0, 2)?, digits(rest, 3, 2)?),
                _ => return None,
            };
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 60 + minutes) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    // A day of seven digits' years has too many microseconds for 64 bits, but not its seconds.
    let seconds = ((day * 24 + hours) * 60 + minutes - offset) * 60 + seconds;
    i64::try_from(i128::from(seconds) * 1_000_000 + i128::from(micros)).ok()
}
