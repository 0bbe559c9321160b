//! What a server says in the lite profile.

use crate::annals::{Annals, Entry, Notice};
use crate::lite::LiteEnvelope;
use crate::message::Envelope;

/// An answer.
pub(crate) fn answer(_envelope: &Envelope) -> Vec<LiteEnvelope> {
    Vec::new()
}

/// An entry.
pub(crate) fn entry(_annals: &Annals, _entry: &Entry) -> Vec<LiteEnvelope> {
    Vec::new()
}

/// A notice.
pub(crate) fn notice(_annals: &Annals, _notice: &Notice) -> Vec<LiteEnvelope> {
    Vec::new()
}
