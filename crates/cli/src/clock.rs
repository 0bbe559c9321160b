//! The time, for people.

use std::time::{Duration, UNIX_EPOCH};

use switchboard_core::{Calendar, Timestamp};

/// The time now.
pub(crate) fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "this is where time enters")]
    let since_epoch = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::default().after(since_epoch)
}

/// How long ago something was.
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(then).as_secs();
    match seconds {
        0..=4 => "just now".to_owned(),
        5..=59 => format!("{seconds} s ago"),
        60..=3_599 => format!("{} min ago", seconds / 60),
        3_600..=86_399 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// A duration with as many digits as a person reads.
pub(crate) fn short(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        0..=999 => format!("{millis} ms"),
        1_000..=59_999 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// Date and time of day in UTC, such as `2026-11-15 10:20:08`.
pub(crate) fn utc(then: Timestamp) -> String {
    let Calendar { year, month, day, hour, minute, second } = then.calendar();
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_794_738_008, "2026-11-15 10:20:08"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(utc(Timestamp::from_secs(seconds)), text);
        }
    }

    #[test]
    fn the_past_is_told_in_one_unit() {
        let now = Timestamp::from_secs(1_000_000);
        for (seconds, text) in
            [(0, "just now"), (59, "59 s ago"), (60, "1 min ago"), (7_300, "2 h ago"), (200_000, "2 d ago")]
        {
            assert_eq!(ago(Timestamp::from_secs(1_000_000 - seconds), now), text);
        }
        assert_eq!(ago(Timestamp::from_secs(1_000_001), now), "just now");
    }

    #[test]
    fn durations_are_short() {
        for (millis, text) in [(7, "7 ms"), (1_234, "1.2 s"), (61_000, "1 min 1 s")] {
            assert_eq!(short(Duration::from_millis(millis)), text);
        }
    }
}
