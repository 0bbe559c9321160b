//! Messages written offline (§7).

use super::AliciaConnection;
use super::jobs::{Answer, Job};

/// A SyncRequest is being done.
#[derive(Debug)]
pub(super) struct Syncing {}

impl AliciaConnection {
    pub(super) fn begin_syncing(&mut self, _job: Job) {}

    pub(super) fn go_on_syncing(&mut self, _job: Job, _syncing: Syncing, _answer: Answer) {}
}
