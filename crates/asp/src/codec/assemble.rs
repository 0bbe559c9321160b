//! Fragments into messages (§3.3).
//!
//! ```text
//!            MORE              MORE                 last
//!   (none) ───────▶ Growing ─────────▶ Growing ───────────▶ (none), message out
//!                      │  too large, interleaved, inconsistent, too slow
//!                      ▼
//!                  Discarding ── last fragment, or 10 s ──▶ (none)
//!   Growing ── too slow, and silent ──▶ (none)
//!   Growing, Discarding ── INTERRUPT or ERROR on the id ──▶ (none)
//! ```
//! Discarding keeps the tail of a refused message from being taken for a new one. When a message times out after
//! a silence, no tail is on its way: what comes then begins anew.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

use super::Frame;
use crate::error::AssembleError;
use crate::message::{Flags, Opcode};

/// The unfinished messages of one connection, at most one per request id.
#[derive(Debug)]
pub struct Assembler {
    limits: AssemblerLimits,
    open: BTreeMap<u16, Open>,
    held: usize,
}

impl Assembler {
    /// An assembler with nothing in it.
    pub fn new(limits: AssemblerLimits) -> Self {
        Self { limits, open: BTreeMap::new(), held: 0 }
    }

    /// Changes what later frames are held against.
    pub fn set_max_payload(&mut self, max_payload: usize) {
        self.limits.max_payload = max_payload;
    }

    /// Takes the next frame; `flags` are the agreed ones (see [`Flags::agreed`]), `now_ms` any clock that
    /// does not go back. An error concerns the frame's id; the frame is gone.
    pub fn push(&mut self, frame: Frame, flags: Flags, now_ms: u64) -> Result<Assembly, AssembleError> {
        let Frame { opcode, id, payload, .. } = frame;
        let Some(open) = self.open.get(&id) else {
            return self.begin(opcode, id, flags, payload, now_ms, None);
        };
        let (from, late) = (open.opcode, now_ms > open.deadline_ms);
        let growing = matches!(open.state, State::Growing { .. });
        if from != opcode && matches!(opcode, Opcode::Interrupt | Opcode::Error) {
            self.forget(id);
            return self.begin(opcode, id, flags, payload, now_ms, growing.then_some(from));
        }
        match (growing, from == opcode) {
            (true, _) if late => {
                let continues = from != opcode || flags.has(Flags::MORE);
                Err(self.give_up(id, from, continues, now_ms, AssembleError::TooSlow(from)))
            }
            (true, true) => self.grow(id, opcode, flags, payload, now_ms),
            (true, false) => Err(self.give_up(id, from, true, now_ms, AssembleError::Interleaved(from))),
            (false, true) if !late => {
                if !flags.has(Flags::MORE) {
                    self.forget(id);
                }
                Ok(Assembly::Discarded)
            }
            (false, _) => {
                self.forget(id);
                self.begin(opcode, id, flags, payload, now_ms, None)
            }
        }
    }

    /// Tells that a frame of this id was refused before it came here, so that the rest of its message is
    /// discarded too.
    pub fn refuse(&mut self, opcode: Opcode, id: u16, flags: Flags, now_ms: u64) {
        self.forget(id);
        if flags.has(Flags::MORE) {
            self.discard(id, opcode, now_ms);
        }
    }

    /// Whether the rest of a refused message of this id is being discarded.
    pub fn discards(&self, id: u16) -> bool {
        self.open.get(&id).is_some_and(|open| matches!(open.state, State::Discarding))
    }

    /// Drops the unfinished message of a request; answers its opcode.
    pub fn abort(&mut self, id: u16) -> Option<Opcode> {
        let open = self.open.get(&id)?;
        let opcode = matches!(open.state, State::Growing { .. }).then_some(open.opcode);
        self.forget(id);
        opcode
    }

    /// Drops everything; answers what was growing.
    pub fn abort_all(&mut self) -> Vec<(u16, Opcode)> {
        self.held = 0;
        let open = std::mem::take(&mut self.open);
        let growing = open.into_iter().filter(|(_, open)| matches!(open.state, State::Growing { .. }));
        growing.map(|(id, open)| (id, open.opcode)).collect()
    }

    /// Gives up what took too long (ASP-057); each is a `FRAGMENT_ERROR` on its id.
    pub fn expire(&mut self, now_ms: u64) -> Vec<(u16, AssembleError)> {
        let late: Vec<u16> =
            self.open.iter().filter(|(_, open)| now_ms > open.deadline_ms).map(|(id, _)| *id).collect();
        let mut given_up = Vec::new();
        for id in late {
            let silent =
                self.open.get(&id).is_some_and(|open| now_ms.saturating_sub(open.last_ms) >= IN_FLIGHT_MS);
            let Some(opcode) = self.abort(id) else { continue };
            if !silent {
                self.discard(id, opcode, now_ms);
            }
            given_up.push((id, AssembleError::TooSlow(opcode)));
        }
        given_up
    }

    /// When to call [`Self::expire`] next.
    pub fn next_deadline(&self) -> Option<u64> {
        self.open.values().map(|open| open.deadline_ms.saturating_add(1)).min()
    }

    /// Bytes held in unfinished messages.
    pub fn held(&self) -> usize {
        self.held
    }

    fn begin(
        &mut self,
        opcode: Opcode,
        id: u16,
        flags: Flags,
        payload: Bytes,
        now_ms: u64,
        aborted: Option<Opcode>,
    ) -> Result<Assembly, AssembleError> {
        let more = flags.has(Flags::MORE);
        if payload.len() > self.limits.max_payload {
            let fault = AssembleError::TooLarge { limit: self.limits.max_payload };
            return Err(self.give_up(id, opcode, more, now_ms, fault));
        }
        if !more {
            return Ok(Assembly::Whole(Assembled { opcode, flags, id, payload, aborted }));
        }
        let held = self.held.saturating_add(payload.len());
        if self.open.len() >= self.limits.max_open || held > self.limits.max_held {
            return Err(self.give_up(id, opcode, more, now_ms, AssembleError::TooMany));
        }
        self.held = held;
        let state = State::Growing { flags, payload: BytesMut::from(payload.as_ref()) };
        let deadline_ms = now_ms.saturating_add(self.limits.timeout_ms);
        self.open.insert(id, Open { opcode, deadline_ms, last_ms: now_ms, state });
        Ok(Assembly::Partial { aborted })
    }

    fn grow(
        &mut self,
        id: u16,
        opcode: Opcode,
        flags: Flags,
        more_payload: Bytes,
        now_ms: u64,
    ) -> Result<Assembly, AssembleError> {
        let continues = flags.has(Flags::MORE);
        let known = self.open.get_mut(&id).map(|open| {
            open.last_ms = now_ms;
            &mut open.state
        });
        let fault = match known {
            Some(State::Growing { flags: first, payload }) => {
                let size = payload.len().saturating_add(more_payload.len());
                let held = self.held.saturating_add(more_payload.len());
                if !same_encoding(*first, flags) {
                    AssembleError::Inconsistent(opcode)
                } else if size > self.limits.max_payload {
                    AssembleError::TooLarge { limit: self.limits.max_payload }
                } else if held > self.limits.max_held {
                    AssembleError::TooMany
                } else {
                    payload.extend_from_slice(&more_payload);
                    self.held = held;
                    if continues {
                        return Ok(Assembly::Partial { aborted: None });
                    }
                    let payload = std::mem::take(payload).freeze();
                    self.held = self.held.saturating_sub(payload.len());
                    self.open.remove(&id);
                    return Ok(Assembly::Whole(Assembled { opcode, flags, id, payload, aborted: None }));
                }
            }
            Some(State::Discarding) | None => return Ok(Assembly::Discarded),
        };
        Err(self.give_up(id, opcode, continues, now_ms, fault))
    }

    /// Ends an assembly with a fault; more fragments of `opcode` are discarded if there will be any.
    fn give_up(
        &mut self,
        id: u16,
        opcode: Opcode,
        continues: bool,
        now_ms: u64,
        fault: AssembleError,
    ) -> AssembleError {
        self.forget(id);
        if continues {
            self.discard(id, opcode, now_ms);
        }
        fault
    }

    fn discard(&mut self, id: u16, opcode: Opcode, now_ms: u64) {
        if self.open.len() >= self.limits.max_open.saturating_mul(2) {
            return;
        }
        let deadline_ms = now_ms.saturating_add(self.limits.timeout_ms);
        self.open.insert(id, Open { opcode, deadline_ms, last_ms: now_ms, state: State::Discarding });
    }

    fn forget(&mut self, id: u16) {
        if let Some(Open { state: State::Growing { payload, .. }, .. }) = self.open.remove(&id) {
            self.held = self.held.saturating_sub(payload.len());
        }
    }
}

/// Bounds of an [`Assembler`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssemblerLimits {
    /// Largest assembled payload.
    pub max_payload: usize,
    /// Most unfinished messages.
    pub max_open: usize,
    /// Most bytes in all unfinished messages.
    pub max_held: usize,
    /// Time from first to last fragment.
    pub timeout_ms: u64,
}

impl Default for AssemblerLimits {
    fn default() -> Self {
        Self { max_payload: 1024 * 1024, max_open: 64, max_held: 4 * 1024 * 1024, timeout_ms: 10_000 }
    }
}

/// What became of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assembly {
    /// A whole message.
    Whole(Assembled),
    /// More to come.
    Partial {
        /// Opcode of the unfinished message this frame aborted.
        aborted: Option<Opcode>,
    },
    /// The tail of a message already refused.
    Discarded,
}

/// One logical message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled {
    /// What it is.
    pub opcode: Opcode,
    /// Flags of its last fragment.
    pub flags: Flags,
    /// Request id.
    pub id: u16,
    /// Assembled, perhaps still compressed.
    pub payload: Bytes,
    /// Opcode of the unfinished message this one aborted.
    pub aborted: Option<Opcode>,
}

#[derive(Debug)]
struct Open {
    opcode: Opcode,
    deadline_ms: u64,
    /// When its last fragment came.
    last_ms: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Growing { flags: Flags, payload: BytesMut },
    Discarding,
}

fn same_encoding(first: Flags, next: Flags) -> bool {
    first.enc() == next.enc() && first.has(Flags::COMPRESSED) == next.has(Flags::COMPRESSED)
}

/// After this much silence no fragment of a message is taken to be on its way any more.
const IN_FLIGHT_MS: u64 = 5_000;
