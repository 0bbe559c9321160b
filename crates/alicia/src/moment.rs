//! Moments as text, RFC 3339.

use switchboard_core::Timestamp;

/// A moment in UTC, to the millisecond.
pub fn rfc3339(at: Timestamp) -> String {
    let date = at.calendar();
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        date.year,
        date.month,
        date.day,
        date.hour,
        date.minute,
        date.second,
        at.as_millis() % 1_000
    )
}

/// The moment that a text names; none if it names none, or one that cannot be counted from 1970 on.
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let (date, time) = (text.get(..10)?, text.get(11..)?);
    if !matches!(text.as_bytes().get(10), Some(b'T' | b't' | b' ')) {
        return None;
    }
    let (year, month, day) = (digits(date.get(..4)?)?, digits(date.get(5..7)?)?, digits(date.get(8..10)?)?);
    let separated = date.get(4..5) == Some("-") && date.get(7..8) == Some("-");
    if !separated || !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at_checked(zone)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let (hour, minute, second) =
        (digits(clock.get(..2)?)?, digits(clock.get(3..5)?)?, digits(clock.get(6..)?)?);
    let separated = clock.get(2..3) == Some(":") && clock.get(5..6) == Some(":") && clock.len() == 8;
    // A leap second is the first of the next minute.
    if !separated || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let millis = digits(&format!("{:0<3}", fraction.get(..fraction.len().min(3))?))?;
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let seconds =
        days_before(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset(zone)?;
    u64::try_from(seconds * 1_000 + millis).ok().map(Timestamp::from_millis)
}

/// How far a zone is ahead of UTC, in seconds.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let (hours, minutes) = (digits(zone.get(1..3)?)?, digits(zone.get(4..6)?)?);
    if zone.len() != 6 || zone.get(3..4) != Some(":") || hours > 23 || minutes > 59 {
        return None;
    }
    let ahead = hours * 3_600 + minutes * 60;
    Some(if zone.starts_with('-') { -ahead } else { ahead })
}

fn digits(text: &str) -> Option<i64> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok()).flatten()
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date. Years begin in March here, so that the leap day is the last of one.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_and_read_to_the_millisecond() {
        for millis in [0, 1, 951_782_399_999, 951_782_400_000, 1_767_225_600_000, 4_102_444_799_123] {
            let at = Timestamp::from_millis(millis);
            assert_eq!(parse_rfc3339(&rfc3339(at)), Some(at));
        }
        assert_eq!(rfc3339(Timestamp::from_millis(1_767_225_600_007)), "2026-01-01T00:00:00.007Z");
    }

    #[test]
    fn other_spellings_of_a_moment_are_read() {
        let new_year = Some(Timestamp::from_millis(1_767_225_600_000));
        for text in [
            "2026-01-01T00:00:00Z",
            "2026-01-01 00:00:00.0z",
            "2026-01-01T01:30:00+01:30",
            "2025-12-31T19:00:00-05:00",
            "2026-01-01T00:00:00.000999Z",
            "2025-12-31T23:59:60Z",
        ] {
            assert_eq!(parse_rfc3339(text), new_year, "{text}");
        }
        assert_eq!(parse_rfc3339("2024-02-29T00:00:00.5Z"), Some(Timestamp::from_millis(1_709_164_800_500)));
    }

    #[test]
    fn what_names_no_moment_is_none() {
        for text in [
            "",
            "yesterday",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00.1x2Z",
            "2026-01-01T00:00Z",
            "2026/01/01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-01-01T00:00:00+0100",
            "2026-01-01T00:00:00+1:000",
            "２026-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
