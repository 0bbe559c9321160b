//! Sessions at work: the [`SessionWorker`] of a server, whose mailbox, log and executors are the world's.

use std::collections::{BTreeMap, VecDeque};

use switchboard_core::model::CallEnd;
use switchboard_core::{Append, CallId, Event, MessageId, Op, Reject, Reply, SessionId, Timestamp, TurnId};
use switchboard_engine::{
    AppendFailed, Command, Node as _, Notice, ReadFailed, SessionInput as Input, SessionOutput as Output,
    SessionWorker,
};

use super::executor::Execution;
use super::log::Trouble;
use super::node::{Asker, Process};
use super::{CrashPoint, World};

/// A session that is alive in the world's server.
#[derive(Debug)]
pub(super) struct LiveSession {
    pub(super) worker: SessionWorker<Process>,
    pub(super) mailbox: VecDeque<Command<Process>>,
    pub(super) executing: BTreeMap<TurnId, Execution>,
    /// The worker has outputs, or may have.
    busy: bool,
    /// What was asked of the log, and is not answered yet.
    asked: Option<Asked>,
    /// When the worker wants to be woken.
    wake: Option<Timestamp>,
}

/// Something that was asked of the log.
#[derive(Debug)]
enum Asked {
    Load,
    Read {
        after: u64,
        limit: usize,
    },
    Find(MessageId),
    Append(Box<Append>),
    /// It is done; the answer arrives at this time.
    Done(Timestamp, Box<Input<Process>>),
}

impl LiveSession {
    /// Whether the worker has something to say now.
    pub(super) const fn may_work(&self) -> bool {
        self.busy && self.asked.is_none()
    }

    /// Whether the log can do or answer something now.
    pub(super) fn may_use_log(&self, now: Timestamp) -> bool {
        match &self.asked {
            Some(Asked::Done(at, _)) => *at <= now,
            Some(Asked::Load | Asked::Read { .. } | Asked::Find(_) | Asked::Append(_)) => true,
            None => false,
        }
    }

    /// Whether it can take commands now, and there are some.
    pub(super) fn may_decide(&self) -> bool {
        self.is_waiting() && self.worker.takes_commands() && !self.mailbox.is_empty()
    }

    /// Whether it is to be woken now.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.is_waiting() && self.wake.is_some_and(|at| at <= now)
    }

    const fn is_waiting(&self) -> bool {
        !self.busy && self.asked.is_none()
    }

    /// Whether the state is that of the log.
    pub(super) fn is_settled(&self) -> bool {
        self.is_waiting() && self.worker.is_settled()
    }

    /// When the session wants to do something by itself.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        match &self.asked {
            Some(Asked::Done(at, _)) => Some(*at),
            Some(Asked::Load | Asked::Read { .. } | Asked::Find(_) | Asked::Append(_)) => None,
            None => self.wake,
        }
    }

    /// How many commands wait.
    pub(super) fn waiting(&self) -> usize {
        self.mailbox.len() + self.worker.waiting()
    }
}

impl World {
    /// Hands a command to a session, bringing it to life if needed.
    pub(super) fn mail(&mut self, id: &SessionId, command: Command<Process>) {
        self.awaken(id);
        if let Some(live) = self.sessions.get_mut(id) {
            live.mailbox.push_back(command);
        }
    }

    /// Brings a session to life, which begins with reading it from the log.
    pub(super) fn awaken(&mut self, id: &SessionId) {
        if self.sessions.contains_key(id) {
            return;
        }
        let live = LiveSession {
            worker: SessionWorker::new(id.clone(), self.session_settings.clone(), self.now),
            mailbox: VecDeque::new(),
            executing: BTreeMap::new(),
            busy: true,
            asked: None,
            wake: None,
        };
        self.sessions.insert(id.clone(), live);
    }

    /// Hands a batch of commands to a session.
    pub(super) fn decide_batch(&mut self, id: &SessionId) {
        let Some(live) = self.sessions.get_mut(id) else { return };
        let most = self.schedule.batch(live.mailbox.len());
        for command in live.mailbox.drain(..most) {
            live.worker.handle(Input::Command(command), &self.process, self.now);
        }
        live.busy = true;
    }

    /// A time has come that a session has waited for.
    pub(super) fn wake_session(&mut self, id: &SessionId) {
        self.schedule.count_timeout(self.now);
        let Some(live) = self.sessions.get_mut(id) else { return };
        for execution in live.executing.values().filter(|execution| !execution.is_silent) {
            execution.lease.renew(self.now);
        }
        live.worker.handle(Input::Timeout, &self.process, self.now);
        live.busy = true;
    }

    /// Carries out the next thing that a session wants done.
    pub(super) fn work(&mut self, id: &SessionId) {
        let Some(live) = self.sessions.get_mut(id) else { return };
        let output = live.worker.poll_output(&self.process, self.now);
        let Some(output) = output.settle(live.worker.feed()) else { return };
        match output {
            Output::Idle { wake } => {
                live.busy = false;
                live.wake = wake;
            }
            Output::Retire if live.mailbox.is_empty() => {
                self.sessions.remove(id);
            }
            Output::Retire | Output::Collect => {
                for command in live.mailbox.drain(..) {
                    live.worker.handle(Input::Command(command), &self.process, self.now);
                }
                live.worker.handle(Input::Collected, &self.process, self.now);
            }
            Output::Load => live.asked = Some(Asked::Load),
            Output::Read { after, limit } => live.asked = Some(Asked::Read { after, limit }),
            Output::Find(message) => live.asked = Some(Asked::Find(message)),
            Output::Append(append) => live.asked = Some(Asked::Append(append)),
            Output::Answer(reply, answer) => {
                if let Some((asker, answer)) = reply.deliver(answer) {
                    self.answer(asker, answer);
                }
            }
            Output::Start(start) => self.begin_execution(id, start),
            Output::Notify(turn, notice) => live.notify(&turn, notice),
            Output::Ahead(turn, answers) => self.answer_ahead(id, &turn, answers),
            // Settled already.
            Output::Attached(..) | Output::Deliver(..) | Output::Publish { .. } => {}
        }
    }

    /// An executor hears of answers that are not committed yet, and makes something of them at once.
    fn answer_ahead(&mut self, id: &SessionId, turn: &TurnId, answers: Vec<(CallId, CallEnd)>) {
        let now = self.now;
        let Some(execution) = self.execution(id, turn) else { return };
        execution.ended_calls.extend(answers);
        for _ in 0..STEPS_AT_ONCE {
            if !self.execution(id, turn).is_some_and(|execution| execution.is_ready(now)) {
                return;
            }
            self.run_execution(id, turn);
        }
    }

    /// The log does what a session has asked of it, or answers.
    pub(super) fn use_log(&mut self, id: &SessionId) {
        let Some(asked) = self.sessions.get_mut(id).and_then(|live| live.asked.take()) else { return };
        let input = match asked {
            Asked::Done(_, input) => {
                let Some(live) = self.sessions.get_mut(id) else { return };
                live.worker.handle(*input, &self.process, self.now);
                live.busy = true;
                return;
            }
            Asked::Append(append) => match self.append(id, &append) {
                Some(appended) => Input::Appended(appended),
                // The process is gone.
                None => return,
            },
            Asked::Load if self.trouble.fails_read() => Input::Loaded(Err(damaged())),
            Asked::Load => Input::Loaded(Ok(self.log.load_stored(id).map(Box::new))),
            Asked::Read { .. } if self.trouble.fails_read() => Input::Page(Err(damaged())),
            Asked::Read { after, limit } => Input::Page(Ok(self.log.read(id, after, limit))),
            Asked::Find(_) if self.trouble.fails_read() => Input::Found(Err(damaged())),
            Asked::Find(message) => Input::Found(Ok(self.log.tells_of(id, &message))),
        };
        let delay = if matches!(input, Input::Appended(_)) { self.settings.commit_ms } else { 0 };
        let at = self.now.after(std::time::Duration::from_millis(delay));
        if let Some(live) = self.sessions.get_mut(id) {
            live.asked = Some(Asked::Done(at, Box::new(input)));
        }
    }

    /// Appends a batch; none if the process dies of it.
    fn append(&mut self, id: &SessionId, append: &Append) -> Option<Result<(), AppendFailed>> {
        let events = &append.batch.events;
        if self.trap_springs(CrashPoint::BeforeAppend, events) {
            self.crash();
            return None;
        }
        let trouble = self.trouble.of_append();
        let reason = || "the disk is broken".to_owned();
        if matches!(trouble, Trouble::Full | Trouble::Lost) {
            return Some(Err(match trouble {
                Trouble::Lost => AppendFailed::Unknown(reason()),
                Trouble::Full | Trouble::None | Trouble::Unheard => AppendFailed::Refused(reason()),
            }));
        }
        if self.log.append(id, append).is_err() {
            return Some(Err(AppendFailed::Conflict));
        }
        if self.trap_springs(CrashPoint::AfterAppend, events) {
            self.crash();
            return None;
        }
        Some(if trouble == Trouble::Unheard { Err(AppendFailed::Unknown(reason())) } else { Ok(()) })
    }

    pub(super) fn answer(&mut self, asker: Asker, answer: Result<Reply, Reject>) {
        match asker {
            Asker::Caller(number) => {
                self.answers.insert(number, answer);
            }
            Asker::Execution { session, turn, worker, asked } => {
                self.execution_answered(&session, &turn, &worker, asked, answer);
            }
        }
    }

    /// Takes in the idempotency keys of the log, as a server does when it starts.
    pub(super) fn remember_keys(&self) {
        let mut keys = self.process.shared().keys.lock();
        for (session, committed) in self.log.all() {
            if let Event::TurnAccepted { key: Some(key), origin, .. } = &committed.event {
                let key = (origin.principal.clone(), key.key.clone());
                keys.insert(key, session.clone(), committed.at);
            }
        }
    }

    /// Asks something of a session on the server's own behalf.
    pub(super) fn insist(&mut self, id: &SessionId, op: Op) {
        self.mail(id, Command::own(op));
    }
}

impl LiveSession {
    /// Passes on what concerns a running executor.
    fn notify(&mut self, turn: &TurnId, notice: Notice) {
        let Some(execution) = self.executing.get_mut(turn) else { return };
        match notice {
            Notice::Answer(call, end) => {
                execution.ended_calls.insert(call, end);
            }
            Notice::Stop(_) | Notice::Halt => execution.stopped = true,
            Notice::Refused(end) => {
                execution.verdict.get_or_insert(end);
                execution.stopped = true;
            }
            Notice::Over(_) => {
                self.executing.remove(turn);
            }
        }
    }
}

fn damaged() -> ReadFailed {
    ReadFailed("the disk cannot be read".to_owned())
}

/// What an executor may do at once with what it has heard ahead.
const STEPS_AT_ONCE: usize = 16;
