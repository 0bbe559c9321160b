//! What a device is asked to do: commands in batches, one batch at a time (§6.2).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use switchboard_core::model::{Call, CallEnd, Failure, FailureKind, TurnEnd, TurnOutcome};
use switchboard_core::{CallId, Frame, Op, Output, Position, SessionId, Timestamp, TurnId, TurnView};

use super::{AipConnection, Pending};
use crate::codec::{self, Commands};
use crate::error::words;
use crate::map::{self, Course, Names, Seen};
use crate::message::{ClientMessage, Outcome, ServerMessage, ServerMessageType, TaskStatus};
use crate::validate;

/// A session in which something is asked of this device.
#[derive(Debug, Default)]
pub(super) struct Work {
    turns: BTreeMap<TurnId, WorkTurn>,
    /// Batches that wait, in order; the first may be incomplete.
    waiting: VecDeque<CommandBatch>,
    /// The one that the device is busy with.
    outstanding: Option<CommandBatch>,
    begun: bool,
    /// Who asked for the turns of the session, and for what, if the device wants to know.
    asked: BTreeMap<TurnId, Vec<String>>,
}

#[derive(Debug)]
struct WorkTurn {
    names: Names,
    course: Course,
    /// Whether the turn is for this device, which is told when it ends.
    own: bool,
}

/// Commands that go out together.
#[derive(Debug)]
struct CommandBatch {
    turn: TurnId,
    response_id: Arc<str>,
    size: usize,
    calls: Vec<Arc<Call>>,
    /// Calls that are over, whether the device knows or not.
    over: Vec<CallId>,
}

impl CommandBatch {
    fn is_complete(&self) -> bool {
        self.calls.len() >= self.size
    }

    fn is_over(&self) -> bool {
        self.is_complete() && self.calls.iter().all(|call| self.over.contains(&call.id))
    }

    fn has(&self, turn: &TurnId, call: &CallId) -> bool {
        self.turn == *turn && self.calls.iter().any(|known| known.id == *call)
    }
}

impl Work {
    /// Whether nothing is left to do in this session.
    pub(super) fn is_over(&self) -> bool {
        self.begun && self.turns.is_empty()
    }
}

impl AipConnection {
    /// A session asks something of this device.
    pub(super) fn invited(&mut self, session: SessionId, after: Position) {
        // Also when the session is followed for a task of its own: the commands may lie before.
        self.work.entry(session.clone()).or_default();
        self.follow(&session, Some(after));
    }

    /// What an event means for the device.
    pub(super) fn work_on(&mut self, session: &SessionId, seen: Seen<'_>, at: Timestamp) {
        let Some(identity) = &self.identity else { return };
        let own = identity.callsign.clone();
        // Two principals may call their sessions the same; to the device that works for both they are two.
        let taken = matches!(seen, Seen::Accepted { origin, .. }
            if self.calls_another(session, &Names::of(origin, session).session_id));
        let names_askers = identity.names_askers;
        let Some(work) = self.work.get_mut(session) else { return };
        if let Seen::Accepted { turn, origin, request, .. } = seen
            && names_askers
        {
            work.asked.insert(turn.clone(), map::asked(origin, Some(&request.text())));
        }
        match seen {
            Seen::Accepted { turn, device, origin, request } => {
                if device == Some(&own) {
                    work.begun = true;
                    let mut names = Names::of(origin, session);
                    if taken {
                        names.session_id = session.to_string();
                    }
                    let course = Course::new(request.text());
                    work.turns.insert(turn.clone(), WorkTurn { names, course, own: true });
                    self.announce(session, turn);
                }
            }
            Seen::Asked(turn, call, device) => {
                if *device == own {
                    work.begun = true;
                    work.turns.entry(turn.clone()).or_insert_with(|| WorkTurn {
                        names: Names::canonical(session),
                        course: Course::new(String::new()),
                        own: false,
                    });
                    self.ask(session, turn, call);
                }
            }
            Seen::Text(turn, text) => {
                if let Some(turn) = work.turns.get_mut(turn).filter(|turn| turn.own) {
                    turn.course.say(text);
                }
            }
            Seen::Answered(turn, call) => {
                work.call_is_over(turn, call);
                self.send_next(session);
            }
            Seen::Stopped(turn, reason) => {
                work.drop_turn(turn);
                if let Some(turn) = work.turns.get_mut(turn) {
                    turn.course.stop(reason);
                }
                self.send_next(session);
            }
            Seen::Ended(turn, end) => {
                work.asked.remove(turn);
                work.drop_turn(turn);
                if let Some(ended) = work.turns.remove(turn) {
                    self.tell_end(session, turn, &ended, (end, at));
                }
                self.send_next(session);
            }
            Seen::Nothing => {}
        }
    }

    /// Takes in who asked for the turns that go on in a session which the device was asked to follow.
    pub(super) fn know_askers(&mut self, session: &SessionId, turns: &[TurnView]) {
        let names_askers = self.identity.as_ref().is_some_and(|identity| identity.names_askers);
        let Some(work) = self.work.get_mut(session).filter(|_| names_askers) else { return };
        for view in turns.iter().filter(|view| view.ended.is_none()) {
            work.asked.entry(view.turn.clone()).or_insert_with(|| map::asked(&view.origin, None));
        }
    }

    /// Whether this device knows another session than this one by that session id.
    fn calls_another(&self, session: &SessionId, session_id: &str) -> bool {
        self.work.iter().any(|(known, work)| {
            known != session
                && work.turns.values().any(|turn| turn.own && turn.names.session_id == session_id)
        })
    }

    /// Tells a device that asked for it what it is going to work for (A25).
    fn announce(&mut self, session: &SessionId, turn: &TurnId) {
        let wants = self.identity.as_ref().is_some_and(|identity| identity.wants_tasks);
        if !wants || self.turn_of(session, turn).is_some() {
            return;
        }
        let Some(known) = self.work.get(session).and_then(|work| work.turns.get(turn)) else { return };
        let task = ServerMessage::new(ServerMessageType::Task, TaskStatus::Continue);
        let task = ServerMessage {
            user_request: Some(known.course.request.clone()),
            session_id: Some(known.names.session_id.clone()),
            task_name: known.names.task_name.clone(),
            ..task
        };
        self.send(task);
    }

    /// The end of a task, unless this very connection is told as its owner (AIP-054). Both are told the same, to the
    /// letter: the time is that of the end.
    fn tell_end(
        &mut self,
        session: &SessionId,
        turn: &TurnId,
        ended: &WorkTurn,
        (end, at): (&TurnEnd, Timestamp),
    ) {
        if !ended.own || self.turn_of(session, turn).is_some() {
            return;
        }
        self.send_as_of(ended.course.end(turn, &ended.names, end), at);
    }

    fn ask(&mut self, session: &SessionId, turn: &TurnId, call: &Arc<Call>) {
        let Some(work) = self.work.get_mut(session) else { return };
        let part_of = |batch: &CommandBatch| {
            !batch.is_complete() && call.batch.as_ref().is_some_and(|known| known.id == batch.response_id)
        };
        match work.waiting.back_mut().filter(|batch| part_of(batch)) {
            Some(batch) => batch.calls.push(call.clone()),
            None => {
                let (response_id, size) = match &call.batch {
                    Some(batch) => (batch.id.clone(), batch.size as usize),
                    None => (map::id_for(call.id.as_str(), 1).into(), 1),
                };
                let calls = vec![call.clone()];
                let batch = CommandBatch { turn: turn.clone(), response_id, size, calls, over: Vec::new() };
                work.waiting.push_back(batch);
            }
        }
        self.send_next(session);
    }

    /// Sends the next batch, if the device is not busy with another one of this session (AIP-049).
    fn send_next(&mut self, session: &SessionId) {
        let Some(work) = self.work.get_mut(session) else { return };
        work.waiting.retain(|batch| !batch.is_over());
        if work.outstanding.is_some() || !work.waiting.front().is_some_and(CommandBatch::is_complete) {
            return;
        }
        let Some(batch) = work.waiting.pop_front() else { return };
        let option =
            |key: &str| batch.calls.iter().find_map(|call| call.options.get(key).and_then(Value::as_str));
        let names = work.turns.get(&batch.turn).map(|turn| &turn.names);
        let platform = self.identity.as_ref().map_or("", |identity| identity.platform.as_str());
        let messages = work.asked.get(&batch.turn).map(Vec::as_slice);
        let message = Commands {
            messages,
            agent_name: option("agent_name").unwrap_or_else(|| map::agent_name(platform)),
            process_name: option("process_name"),
            root_name: option("root_name"),
            session_id: names.map(|names| names.session_id.as_str()),
            task_name: names.and_then(|names| names.task_name.as_deref()),
            timestamp: self.stamp.write(self.now),
            response_id: &batch.response_id,
        };
        let text = codec::encode_commands(&message, batch.calls.iter().map(|call| map::command(call)));
        work.outstanding = Some(batch);
        self.out.push_back(Output::Send(Frame::Text(text)));
    }

    /// The device has done what it was asked, or says why not. What answers nothing is dropped
    /// (AIP-051).
    pub(super) fn take_results(&mut self, message: ClientMessage) {
        if validate::command_results(&message).is_err() {
            return;
        }
        let ClientMessage { session_id, prev_response_id, action_results, status, error, .. } = message;
        let (Some(session_id), Some(answered)) = (session_id, prev_response_id) else { return };
        let found = self.work.iter_mut().find(|(_, work)| {
            work.outstanding.as_ref().is_some_and(|batch| {
                *batch.response_id == *answered
                    && work.turns.get(&batch.turn).is_some_and(|turn| turn.names.session_id == session_id)
            })
        });
        let Some((session, work)) = found else { return };
        let session = session.clone();
        let Some(batch) = work.outstanding.take() else { return };
        let ends = ends(&batch, action_results.unwrap_or_default());
        for (call, end) in ends {
            if !batch.over.contains(&call) {
                self.insist(&session, Op::Answer { turn: batch.turn.clone(), call, end });
            }
        }
        // A12: the device may end the task with its results.
        let end = match status {
            TaskStatus::Continue | TaskStatus::Ok => None,
            TaskStatus::Completed => Some(TurnEnd::complete()),
            TaskStatus::Failed | TaskStatus::Error => {
                let message = error.unwrap_or_else(|| words::GAVE_UP.to_owned());
                let failure = Failure::new(FailureKind::Tool, message);
                Some(TurnEnd::new(TurnOutcome::Failed(failure)))
            }
        };
        if let Some(end) = end {
            self.insist(&session, Op::Conclude { turn: batch.turn, end });
        }
        self.send_next(&session);
    }

    /// The turn that this device works on under a session id.
    pub(super) fn worked_on(&self, session_id: &str) -> Option<(SessionId, TurnId)> {
        self.work.iter().find_map(|(session, work)| {
            let (turn, _) =
                work.turns.iter().find(|(_, turn)| turn.own && turn.names.session_id == session_id)?;
            Some((session.clone(), turn.clone()))
        })
    }

    /// Keeps what went wrong with the command that the device is busy with.
    pub(super) fn note_error(&mut self, session_id: &str, text: &str) {
        let Some((session, _)) = self.worked_on(session_id) else { return };
        let Some(batch) = self.work.get(&session).and_then(|work| work.outstanding.as_ref()) else { return };
        let Some(call) = batch.calls.iter().find(|call| !batch.over.contains(&call.id)) else { return };
        let op = Op::Progress { turn: batch.turn.clone(), call: call.id.clone(), delta: text.to_owned() };
        self.submit(&session, op, Pending::Nothing);
    }
}

impl Work {
    fn call_is_over(&mut self, turn: &TurnId, call: &CallId) {
        let batches = self.waiting.iter_mut().chain(self.outstanding.as_mut());
        for batch in batches.filter(|batch| batch.has(turn, call)) {
            batch.over.push(call.clone());
        }
        if self.outstanding.as_ref().is_some_and(CommandBatch::is_over) {
            self.outstanding = None;
        }
    }

    fn drop_turn(&mut self, turn: &TurnId) {
        self.waiting.retain(|batch| batch.turn != *turn);
        if self.outstanding.as_ref().is_some_and(|batch| batch.turn == *turn) {
            self.outstanding = None;
        }
    }
}

/// Which outcome belongs to which call: by its name, or by its place where none is named (§12).
fn ends(batch: &CommandBatch, outcomes: Vec<Outcome>) -> Vec<(CallId, CallEnd)> {
    let by_place =
        outcomes.len() == batch.calls.len() && outcomes.iter().all(|outcome| outcome.call_id.is_none());
    let mut outcomes: Vec<Option<Outcome>> = outcomes.into_iter().map(Some).collect();
    let calls = batch.calls.iter().enumerate();
    calls
        .map(|(place, call)| {
            let matching = if by_place {
                outcomes.get_mut(place)
            } else {
                let wire = map::call_id(call);
                let named = |outcome: &Outcome| outcome.call_id.as_deref() == Some(&*wire);
                outcomes.iter_mut().find(|outcome| outcome.as_ref().is_some_and(named))
            };
            let end = matching.and_then(Option::take).map_or_else(map::no_result, map::call_end);
            (call.id.clone(), end)
        })
        .collect()
}
