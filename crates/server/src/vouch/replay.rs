//! Tokens that were used, so that none is used twice.
//!
//! A token is written down before anybody learns that it counted, and stays written for as long as it would count
//! otherwise. Those who come at the same time share one write.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use switchboard_core::Timestamp;

use super::{files, setup_error};
use crate::auth::AuthSetupError;

/// Stands for one token of one issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark([u8; 32]);

impl Mark {
    pub(super) fn new(words: &[&str]) -> Self {
        let mut digest = Sha256::new();
        for word in words {
            digest.update((word.len() as u64).to_be_bytes());
            digest.update(word);
        }
        Self(digest.finalize().into())
    }
}

/// Why a token could not be used up.
#[derive(Debug)]
pub(super) enum Unredeemed {
    /// It was used before.
    Used,
    /// There are too many.
    Full,
    /// It cannot be written down.
    Unwritable(io::Error),
}

/// The tokens that were used.
#[derive(Debug)]
pub(super) struct Redeemed {
    marks: Mutex<Marks>,
    /// Nothing, if nothing has to survive.
    file: Option<Mutex<RedeemedFile>>,
}

#[derive(Debug, Default)]
struct Marks {
    /// The last second in which each is kept.
    until: BTreeMap<Mark, u64>,
    by_time: BTreeSet<(u64, Mark)>,
    /// Lines that are not in the file yet, and how many lines there were ever.
    pending: String,
    lines: u64,
}

impl Marks {
    fn insert(&mut self, mark: Mark, until: u64) {
        self.until.insert(mark, until);
        self.by_time.insert((until, mark));
    }

    fn forget_before(&mut self, second: u64) {
        while let Some((until, mark)) = self.by_time.first().copied()
            && until < second
        {
            self.by_time.pop_first();
            self.until.remove(&mark);
        }
    }

    fn text(&self) -> String {
        self.by_time.iter().fold(String::new(), |mut text, (until, mark)| {
            line(&mut text, *until, *mark);
            text
        })
    }
}

#[derive(Debug)]
struct RedeemedFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// How many of the lines that there were ever are in it.
    lines: u64,
}

impl Redeemed {
    /// What is written down here, without what no longer matters. Without a path it ends with the process.
    pub(super) fn open(path: Option<&Path>, now: Timestamp) -> Result<Self, AuthSetupError> {
        let Some(path) = path else {
            return Ok(Self { marks: Mutex::default(), file: None });
        };
        let at = |error: &dyn std::fmt::Display| {
            setup_error("data_dir", format!("{} cannot be used: {error}", path.display()))
        };
        let mut marks = Marks::default();
        match std::fs::read_to_string(path) {
            Ok(text) => {
                // What follows the last end of a line was never finished, so that nobody was told it counted.
                let whole = text.rfind('\n').map_or("", |end| &text[..end]);
                for text in whole.lines() {
                    let (until, mark) = parse(text).ok_or_else(|| {
                        at(&"it is damaged; delete it to let tokens that were used be used again")
                    })?;
                    marks.insert(mark, until);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(at(&error)),
        }
        marks.forget_before(now.as_secs());
        let file = RedeemedFile::write(path, &marks).map_err(|error| at(&error))?;
        Ok(Self { marks: Mutex::new(marks), file: Some(Mutex::new(file)) })
    }

    /// Whether this one was used.
    pub(super) fn contains(&self, mark: Mark) -> bool {
        self.marks.lock().until.contains_key(&mark)
    }

    /// Uses this one up, which would count until the end of the second `until`. Exactly one of those who try succeeds.
    pub(super) async fn redeem(
        self: &Arc<Self>,
        mark: Mark,
        until: u64,
        now: Timestamp,
    ) -> Result<(), Unredeemed> {
        let lines = {
            let mut marks = self.marks.lock();
            marks.forget_before(now.as_secs());
            if marks.until.contains_key(&mark) {
                return Err(Unredeemed::Used);
            }
            if marks.until.len() >= MAX_MARKS {
                return Err(Unredeemed::Full);
            }
            marks.insert(mark, until);
            if self.file.is_some() {
                line(&mut marks.pending, until, mark);
                marks.lines += 1;
            }
            marks.lines
        };
        let this = Arc::clone(self);
        tokio::task::spawn_blocking(move || this.write_down(lines))
            .await
            .unwrap_or_else(|_| Err(io::Error::other("the writer has ended")))
            .map_err(Unredeemed::Unwritable)
    }

    /// Sees to it that the file holds the first `lines` of all lines.
    fn write_down(&self, lines: u64) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut file = file.lock();
        if file.lines >= lines {
            return Ok(());
        }
        if file.bytes > MAX_FILE_BYTES {
            let mut marks = self.marks.lock();
            *file = RedeemedFile::write(&file.path, &marks)?;
            marks.pending.clear();
            return Ok(());
        }
        let (text, lines) = {
            let mut marks = self.marks.lock();
            (std::mem::take(&mut marks.pending), marks.lines)
        };
        file.append(&text, lines)
    }
}

impl RedeemedFile {
    /// A file that holds just these.
    fn write(path: &Path, marks: &Marks) -> io::Result<Self> {
        let text = marks.text();
        files::replace(path, text.as_bytes())?;
        let file = File::options().append(true).open(path)?;
        Ok(Self { path: path.to_owned(), file, bytes: text.len() as u64, lines: marks.lines })
    }

    fn append(&mut self, text: &str, lines: u64) -> io::Result<()> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => {
                self.bytes += text.len() as u64;
                self.lines = lines;
            }
            // Half a line must not stay in front of whole ones: the next one writes the file anew.
            Err(_) => self.bytes = u64::MAX,
        }
        written
    }
}

fn line(text: &mut String, until: u64, mark: Mark) {
    let _ = writeln!(text, "{until} {}", URL_SAFE_NO_PAD.encode(mark.0));
}

fn parse(line: &str) -> Option<(u64, Mark)> {
    let (until, mark) = line.split_once(' ')?;
    let mark = URL_SAFE_NO_PAD.decode(mark).ok()?.try_into().ok()?;
    Some((until.parse().ok()?, Mark(mark)))
}

/// Tokens that are remembered. Each is for minutes, so that this is some hundred sessions per second.
const MAX_MARKS: usize = 200_000;
/// Bytes after which what no longer matters is left out of the file.
const MAX_FILE_BYTES: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000);

    fn mark(number: usize) -> Mark {
        Mark::new(&[&number.to_string()])
    }

    fn lines(path: &Path) -> usize {
        std::fs::read_to_string(path).unwrap().lines().count()
    }

    #[tokio::test]
    async fn what_cannot_be_written_down_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("redeemed");
        let redeemed = Arc::new(Redeemed::open(Some(&path), NOW).unwrap());
        redeemed.redeem(mark(1), 2_000, NOW).await.unwrap();
        // A disk that is full.
        redeemed.file.as_ref().unwrap().lock().file = File::options().write(true).open("/dev/full").unwrap();
        assert!(matches!(redeemed.redeem(mark(2), 2_000, NOW).await, Err(Unredeemed::Unwritable(_))));
        assert!(
            matches!(redeemed.redeem(mark(2), 2_000, NOW).await, Err(Unredeemed::Used)),
            "nor does it again"
        );
        // And one that no longer is.
        redeemed.redeem(mark(3), 2_000, NOW).await.unwrap();
        assert_eq!(lines(&path), 3);
    }

    #[tokio::test]
    async fn the_file_does_not_grow_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("redeemed");
        let redeemed = Arc::new(Redeemed::open(Some(&path), NOW).unwrap());
        for number in 0..10 {
            redeemed.redeem(mark(number), 1_010, NOW).await.unwrap();
        }
        redeemed.file.as_ref().unwrap().lock().bytes = MAX_FILE_BYTES + 1;
        redeemed.redeem(mark(10), 1_100, Timestamp::from_secs(1_011)).await.unwrap();
        assert_eq!(lines(&path), 1);
        redeemed.redeem(mark(11), 1_100, Timestamp::from_secs(1_011)).await.unwrap();
        assert_eq!(lines(&path), 2);
        let again = Redeemed::open(Some(&path), Timestamp::from_secs(1_011)).unwrap();
        assert!(again.contains(mark(10)) && again.contains(mark(11)) && !again.contains(mark(0)));
    }

    #[tokio::test]
    async fn there_is_a_bound_until_some_have_ended() {
        let redeemed = Arc::new(Redeemed::open(None, NOW).unwrap());
        for number in 0..MAX_MARKS {
            redeemed.marks.lock().insert(mark(number), 1_010);
        }
        let next = mark(MAX_MARKS);
        assert!(matches!(redeemed.redeem(next, 2_000, NOW).await, Err(Unredeemed::Full)));
        assert!(matches!(
            redeemed.redeem(next, 2_000, Timestamp::from_secs(1_010)).await,
            Err(Unredeemed::Full)
        ));
        redeemed.redeem(next, 2_000, Timestamp::from_secs(1_011)).await.unwrap();
    }
}
