//! Taking in what was committed. Total: an event that makes no sense changes nothing.

use std::sync::Arc;

use crate::id::{MessageId, TurnId};
use crate::model::message::text_of;
use crate::model::{Call, Claim, Committed, Event, Output, TurnOutcome};
use crate::session::{
    Attachment, DeviceState, EndedTurn, KnownMessage, KnownRequest, RECENT_MESSAGES, Session, TurnState,
};
use crate::time::Timestamp;

impl Session {
    /// Takes in one committed event.
    pub fn apply(&mut self, committed: &Committed) {
        let at = committed.at;
        self.head = committed.position;
        if !committed.event.is_passing() {
            self.updated_at = at;
        }
        match &committed.event {
            Event::SessionOpened { owner, agent, name, epoch: _ } => {
                self.owner = Some(owner.clone());
                self.agent = Some(agent.clone());
                self.name.clone_from(name);
                self.opened_at = at;
            }
            Event::ParticipantJoined { principal, role } => {
                self.participants.insert(principal.clone(), *role);
            }
            Event::ParticipantLeft { principal } => {
                self.participants.remove(principal);
            }
            Event::AttachmentOpened { attachment, generation, principal, secret, window_ms } => {
                let linked = self.attachments.remove(attachment).map(|known| known.linked);
                let state = Attachment {
                    generation: *generation,
                    principal: principal.clone(),
                    secret: *secret,
                    window_ms: *window_ms,
                    detached_at: None,
                    linked: linked.unwrap_or_default(),
                };
                self.attachments.insert(attachment.clone(), Box::new(state));
            }
            Event::AttachmentLinked { attachment, session } => {
                if let Some(state) = self.attachments.get_mut(attachment) {
                    state.linked.push(session.clone());
                }
            }
            Event::AttachmentDetached { attachment, generation } => {
                if let Some(state) = self.attachments.get_mut(attachment)
                    && state.generation == *generation
                {
                    state.detached_at = Some(at);
                }
                // Nobody is left to say when it may begin: it takes its place among the serial turns.
                for turn in self.turns.values_mut().filter(|turn| turn.is_held_by(attachment)) {
                    turn.serial = true;
                }
            }
            Event::AttachmentClosed { attachment } => {
                self.attachments.remove(attachment);
            }
            Event::DeviceJoined { principal, device } => {
                let state = DeviceState {
                    device: (**device).clone(),
                    principal: principal.clone(),
                    joined_at: at,
                    reported_at: at,
                    left_at: None,
                    released_at: None,
                };
                self.devices.insert(device.callsign.clone(), Box::new(state));
            }
            Event::DeviceReported { device, facts } => {
                if let Some(state) = self.devices.get_mut(device) {
                    state.device.facts = (**facts).clone();
                    state.reported_at = at;
                }
            }
            Event::DeviceLeft { device } => {
                if let Some(state) = self.devices.get_mut(device) {
                    state.left_at = Some(at);
                }
            }
            Event::DeviceReleased { device, by: _ } => {
                if let Some(state) = self.devices.get_mut(device) {
                    state.released_at = Some(at);
                }
            }
            Event::ToolsChanged { revision, added, removed, turn: _ } => {
                self.tools_revision = *revision;
                for name in removed {
                    self.tools.remove(name);
                }
                for tool in added {
                    self.tools.insert(tool.name.clone(), Box::new(tool.clone()));
                }
            }
            Event::MessageAdded { message } => {
                self.with_turn(&message.turn, |turn| {
                    turn.placed = true;
                    turn.parent = Some(message.id.clone());
                });
                if let Some(parent) = &message.parent {
                    let answering = self.turns.values_mut().find(|turn| turn.answer() == *parent);
                    answering.into_iter().for_each(|turn| turn.followed = true);
                }
                self.remember_message(KnownMessage::of(message));
            }
            Event::MessageEdited { message, parts } => {
                if let Some(known) = self.recent_messages.iter_mut().find(|known| known.id == *message) {
                    known.edit(&text_of(parts));
                }
            }
            Event::TipMoved { tip } => self.tip = Some(tip.clone()),
            Event::SessionRenamed { name } => self.name = Some(name.clone()),
            Event::StandingChanged { standing } => self.standing = *standing,
            Event::ChronicleBegun { chronicle } => {
                self.chronicles.insert(chronicle.clone());
            }
            Event::Recorded { .. } => {}
            Event::TurnAccepted { turn, .. } => self.accept_turn(turn, committed),
            Event::TurnQueued { turn, position } => {
                self.with_turn(turn, |turn| {
                    turn.queued = Some(*position);
                    turn.held = false;
                });
            }
            Event::TurnStarted { turn, claim } => {
                self.with_turn(turn, |turn| turn.start(claim, at));
            }
            Event::TurnReleased { turn, deadline } => self.with_turn(turn, |turn| {
                turn.claim = None;
                turn.held = false;
                turn.deadline = deadline.unwrap_or(turn.deadline);
            }),
            Event::TurnOutput { turn, output } => self.with_turn(turn, |turn| turn.take_output(output, at)),
            Event::CallRequested { turn, call } => self.with_turn(turn, |turn| turn.open_call(call, at)),
            Event::CallProgress { .. } => {}
            Event::CallEnded { turn, call, end: _ } => {
                self.with_turn(turn, |turn| {
                    turn.calls.remove(call);
                });
            }
            Event::TurnInterrupted { turn, .. } => {
                self.with_turn(turn, |turn| {
                    turn.interrupted_at = Some(at);
                    turn.calls.clear();
                });
            }
            Event::TurnEnded { turn, end } => {
                let answered = !matches!(end.outcome, TurnOutcome::Failed(_) | TurnOutcome::Expired);
                self.end(turn, committed.position.seq, answered);
            }
        }
    }

    fn with_turn(&mut self, turn: &TurnId, change: impl FnOnce(&mut TurnState)) {
        if let Some(state) = self.turns.get_mut(turn) {
            change(state);
        }
    }

    fn accept_turn(&mut self, id: &TurnId, committed: &Committed) {
        let Event::TurnAccepted {
            request,
            agent,
            device,
            origin,
            serial,
            held,
            once,
            setting,
            deadline,
            parent,
            recall,
            workspace,
            meta,
            key,
            names,
            turn: _,
        } = &committed.event
        else {
            return;
        };
        if let Some(request) = key {
            let known = KnownRequest {
                principal: origin.principal.clone(),
                request: (**request).clone(),
                turn: id.clone(),
                accepted: committed.position,
                at: committed.at,
            };
            self.requests.push_back(known);
            if self.requests.len() > self.limits.requests {
                self.requests.pop_front();
            }
        }
        self.turn_count += 1;
        let again = names.as_ref().is_some_and(|names| names.again);
        let derived = || MessageId::input_of(id);
        let input = names.as_ref().map_or_else(derived, |names| names.input_of(id));
        let state = TurnState {
            turn: id.clone(),
            request: (**request).clone(),
            agent: agent.clone(),
            device: device.clone(),
            origin: (**origin).clone(),
            serial: *serial,
            held: *held,
            once: *once,
            setting: setting.clone(),
            deadline: *deadline,
            meta: (**meta).clone(),
            accepted: committed.position,
            accepted_at: committed.at,
            after: parent.clone(),
            recall: *recall,
            workspace: workspace.clone(),
            placed: again || self.tip.as_ref() == Some(&input),
            parent: if again { Some(input) } else { self.tip.clone() },
            followed: false,
            names: names.clone(),
            queued: None,
            claim: None,
            claims: 0,
            barren_claims: 0,
            started_at: None,
            first_output_at: None,
            suspended: false,
            text: String::new(),
            calls: Default::default(),
            interrupted_at: None,
        };
        self.turns.insert(id.clone(), state);
    }

    fn end(&mut self, id: &TurnId, seq: u64, answered: bool) {
        let Some(turn) = self.turns.remove(id) else { return };
        if answered && !turn.text.is_empty() {
            let answer = KnownMessage::answer(&turn);
            // Whoever superseded the turn, or wrote meanwhile, goes on from here already.
            let tip = self.tip.take().filter(|_| turn.followed);
            self.remember_message(answer);
            self.tip = tip.or_else(|| self.tip.take());
        }
        let mut view = turn.view();
        view.ended = Some(seq);
        self.ended.push_back(EndedTurn { view });
        if self.ended.len() > self.limits.ended_turns {
            self.ended.pop_front();
        }
        let goes_on = |turn: &TurnState| turn.serial && turn.queued.is_none();
        if !self.turns.values().any(goes_on)
            && let Some(first) =
                self.turns.values_mut().filter(|turn| turn.serial).min_by_key(|turn| turn.accepted.seq)
        {
            first.queued = None;
        }
    }

    fn remember_message(&mut self, message: KnownMessage) {
        self.tip = Some(message.id.clone());
        self.recent_messages.push_back(message);
        if self.recent_messages.len() > RECENT_MESSAGES {
            self.recent_messages.pop_front();
        }
    }
}

impl TurnState {
    fn start(&mut self, claim: &Claim, at: Timestamp) {
        self.claims = claim.fence;
        self.barren_claims += 1;
        self.claim = Some(claim.clone());
        self.queued = None;
        self.started_at.get_or_insert(at);
    }

    fn take_output(&mut self, output: &Output, at: Timestamp) {
        if !output.is_progress() {
            return;
        }
        self.suspended = matches!(output, Output::Suspended(_));
        self.barren_claims = 0;
        self.first_output_at.get_or_insert(at);
        if let Output::Text(text) = output {
            self.text.push_str(text);
        }
    }

    fn open_call(&mut self, call: &Arc<Call>, at: Timestamp) {
        self.suspended = false;
        self.barren_claims = 0;
        self.first_output_at.get_or_insert(at);
        self.calls.insert(call.id.clone(), Arc::clone(call));
    }
}
