//! Which sessions the log may have, so that nobody goes and looks for one that it cannot have: most sessions that are
//! asked for and not in memory are new.
//!
//! A Bloom filter: what it does not know is not there, what it knows probably is. Nothing is ever taken out, as
//! nothing is taken out of the log.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rusqlite::Connection;
use switchboard_core::SessionId;

use crate::log::StoreError;

#[derive(Debug)]
pub(super) struct Familiar {
    bits: Box<[AtomicU64]>,
    /// Whether it knows all that there are.
    complete: AtomicBool,
}

impl Familiar {
    /// Knows nothing yet of what the log has; where it has nothing, that is all.
    pub(super) fn new(connection: &Connection) -> Result<Self, StoreError> {
        let last: Option<i64> = connection.query_row("SELECT max(id) FROM streams", [], |row| row.get(0))?;
        let sessions = last.unwrap_or(0).unsigned_abs();
        Ok(Self { complete: AtomicBool::new(sessions == 0), ..Self::with_room_for(sessions) })
    }

    fn with_room_for(sessions: u64) -> Self {
        let bits = sessions.saturating_mul(BITS_EACH).clamp(FEWEST_BITS, MOST_BITS).next_power_of_two();
        Self { bits: (0..bits / 64).map(|_| AtomicU64::new(0)).collect(), complete: AtomicBool::new(false) }
    }

    /// Gets to know what the log has. What comes meanwhile is noted by whoever writes it.
    pub(super) fn learn(&self, connection: &Connection) -> Result<(), StoreError> {
        if self.complete.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut statement = connection.prepare("SELECT session FROM streams")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            self.note_name(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
        }
        self.complete.store(true, Ordering::Release);
        Ok(())
    }

    /// The log has, or is about to have, this session.
    pub(super) fn note(&self, session: &SessionId) {
        self.note_name(session.as_str());
    }

    /// Whether the log may have it.
    pub(super) fn may_have(&self, session: &SessionId) -> bool {
        let is_noted = |(word, bit): (usize, u64)| {
            self.bits.get(word).is_none_or(|word| word.load(Ordering::Acquire) & bit != 0)
        };
        !self.complete.load(Ordering::Acquire) || self.places(session.as_str()).all(is_noted)
    }

    fn note_name(&self, session: &str) {
        for (word, bit) in self.places(session) {
            if let Some(word) = self.bits.get(word) {
                word.fetch_or(bit, Ordering::AcqRel);
            }
        }
    }

    /// The bits that stand for a session: a word, and one bit in it, each.
    fn places(&self, session: &str) -> impl Iterator<Item = (usize, u64)> + use<> {
        let mut hasher = DefaultHasher::new();
        session.hash(&mut hasher);
        let hash = hasher.finish();
        let (first, step) = (hash >> 32, hash & 0xffff_ffff | 1);
        let words = self.bits.len();
        (0..PLACES).map(move |place| {
            let bit = first.wrapping_add(place.wrapping_mul(step));
            (usize::try_from(bit >> 6).unwrap_or(0) & (words - 1), 1 << (bit & 63))
        })
    }
}

/// With so many bits for each, one in four hundred is taken for another.
const BITS_EACH: u64 = 16;
const PLACES: u64 = 4;
/// A quarter of a mebibyte, for a hundred thousand sessions; with ten times as many, half of what is new is looked for.
const FEWEST_BITS: u64 = 1 << 21;
/// Sixteen mebibytes.
const MOST_BITS: u64 = 1 << 27;

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: u32) -> SessionId {
        SessionId::new(format!("ses_{number}"))
    }

    #[test]
    fn what_was_noted_is_known_and_hardly_anything_else() {
        let familiar = Familiar { complete: AtomicBool::new(true), ..Familiar::with_room_for(0) };
        (0..100_000).for_each(|number| familiar.note(&session(number)));
        assert!((0..100_000).all(|number| familiar.may_have(&session(number))));
        let mistaken = (100_000..200_000).filter(|number| familiar.may_have(&session(*number))).count();
        assert!(mistaken < 500, "{mistaken} of 100000");
    }

    #[test]
    fn before_all_is_known_everything_may_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("log.db")).unwrap();
        connection
            .execute_batch("CREATE TABLE streams (id INTEGER PRIMARY KEY, session TEXT); INSERT INTO streams (session) VALUES ('ses_1')")
            .unwrap();
        let familiar = Familiar::new(&connection).unwrap();
        assert!(familiar.may_have(&session(2)));
        familiar.note(&session(3));
        familiar.learn(&connection).unwrap();
        assert!(familiar.may_have(&session(1)) && familiar.may_have(&session(3)));
        assert!(!familiar.may_have(&session(2)));
        connection.execute_batch("DELETE FROM streams").unwrap();
        let empty = Familiar::new(&connection).unwrap();
        assert!(!empty.may_have(&session(1)));
    }

    #[test]
    fn there_is_a_bound() {
        assert_eq!(Familiar::with_room_for(u64::MAX).bits.len() as u64 * 64, MOST_BITS);
    }
}
