//! The task of one session: runs its [`SessionWorker`] on a mailbox, a timer, the log and executors.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use switchboard_core::model::{TurnEnd, TurnOutcome};
use switchboard_core::{Event, SessionId, Timestamp, TurnId};
use switchboard_engine::{
    AppendFailed, Command, Notice, ReadFailed, SessionInput as Input, SessionOutput as Output, SessionWorker,
    Start,
};
use switchboard_store::StoreError;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Environment, Execution, Sessions};
use crate::meters::{log_failure, turn_ended};

pub(super) struct SessionTask {
    sessions: Arc<Sessions>,
    worker: SessionWorker<Environment>,
    executors: BTreeMap<TurnId, Execution>,
    mailbox: mpsc::WeakSender<Command<Environment>>,
    /// When the worker wants to be woken.
    wake: Option<Timestamp>,
    /// Nothing goes on any more, and the session was struck off.
    retired: bool,
}

impl SessionTask {
    pub(super) fn new(
        id: SessionId,
        sessions: Arc<Sessions>,
        mailbox: mpsc::WeakSender<Command<Environment>>,
    ) -> Self {
        let Environment { settings, clock, .. } = &sessions.environment;
        let worker = SessionWorker::new(id, settings.clone(), clock.now());
        Self { worker, executors: BTreeMap::new(), mailbox, wake: None, retired: false, sessions }
    }

    /// Works until there is nothing left to do.
    pub(super) async fn run(&mut self, mailbox: &mut mpsc::Receiver<Command<Environment>>) {
        // Boxed, so that an idle session does not carry the room for its work.
        Box::pin(self.work(mailbox)).await;
        let mut commands = Vec::new();
        let mut timer = pin!(tokio::time::sleep_until(Instant::now()));
        while !self.retired && !self.worker.is_over() {
            let clock = self.sessions.environment.clock;
            // The timer may go off early, which is harmless, but never late: most of what is waited for is over
            // long before its time.
            let due = self.wake.map(|at| clock.instant(at));
            if let Some(at) = due.filter(|at| *at < timer.deadline() || timer.is_elapsed()) {
                timer.as_mut().reset(at);
            }
            tokio::select! {
                biased;
                received = mailbox.recv_many(&mut commands, BATCH_COMMANDS), if self.worker.takes_commands() => {
                    if received == 0 {
                        return;
                    }
                    self.hand_in(commands.drain(..));
                    Box::pin(self.work(mailbox)).await;
                    // A burst leaves no memory behind.
                    if mailbox.is_empty() && commands.capacity() > SMALL_BATCH {
                        commands = Vec::new();
                    }
                }
                () = &mut timer, if due.is_some() => {
                    let now = clock.now();
                    if self.wake.is_some_and(|at| at <= now) {
                        self.worker.handle(Input::Timeout, &self.sessions.environment, now);
                        Box::pin(self.work(mailbox)).await;
                    }
                }
            }
        }
    }

    fn hand_in(&mut self, commands: impl Iterator<Item = Command<Environment>>) {
        let environment = &self.sessions.environment;
        let now = environment.clock.now();
        for command in commands {
            self.worker.handle(Input::Command(command), environment, now);
        }
    }

    /// Carries out what the worker wants done, until it has nothing more for now.
    async fn work(&mut self, mailbox: &mut mpsc::Receiver<Command<Environment>>) {
        let sessions = self.sessions.clone();
        let environment = &sessions.environment;
        let mut now = environment.clock.now();
        loop {
            let output = self.worker.poll_output(environment, now);
            self.count(&output);
            let Some(output) = output.settle(self.worker.feed()) else { continue };
            let input = match output {
                Output::Idle { wake } => {
                    self.wake = wake;
                    return;
                }
                Output::Retire => {
                    self.retired = sessions.retire(self.worker.session().id(), mailbox);
                    if self.retired {
                        return;
                    }
                    self.hand_in(std::iter::from_fn(|| mailbox.try_recv().ok()).take(BATCH_COMMANDS));
                    continue;
                }
                // Whoever has gone away needs no answer.
                Output::Answer(reply, answer) => {
                    reply.deliver(answer).map(|(waiter, answer)| waiter.send(answer));
                    continue;
                }
                Output::Start(start) => {
                    self.start(start);
                    continue;
                }
                Output::Notify(turn, notice) => {
                    self.notify(&turn, notice);
                    continue;
                }
                Output::Ahead(turn, answers) => {
                    if let Some(executor) = self.executors.get(&turn) {
                        executor.answer_ahead(answers);
                    }
                    continue;
                }
                Output::Collect => {
                    self.hand_in(std::iter::from_fn(|| mailbox.try_recv().ok()).take(BATCH_COMMANDS));
                    Input::Collected
                }
                Output::Load => {
                    let loaded = environment.log.load(self.worker.session().id()).await;
                    Input::Loaded(loaded.map(|some| some.map(Box::new)).map_err(|error| read_failed(&error)))
                }
                Output::Read { after, limit } => {
                    let read = environment.log.read(self.worker.session().id(), after, limit).await;
                    Input::Page(read.map_err(|error| read_failed(&error)))
                }
                Output::Find(message) => {
                    let found = environment.log.history(self.worker.session().id(), &message, 1).await;
                    let found = found.map(|rows| rows.first().is_some_and(|row| row.message == message));
                    Input::Found(found.map_err(|error| read_failed(&error)))
                }
                Output::Append(append) => {
                    let began = environment.clock.now();
                    let appended = environment.log.append(*append).await;
                    let meters = &environment.meters;
                    meters.append_seconds.record(environment.clock.now().since(began));
                    if matches!(appended, Err(StoreError::Conflict { .. })) {
                        meters.conflicts.increment(1);
                    }
                    Input::Appended(appended.map_err(|error| append_failed(&error)))
                }
                // Settled already.
                Output::Attached(..) | Output::Deliver(..) | Output::Publish { .. } => continue,
            };
            now = environment.clock.now();
            self.worker.handle(input, environment, now);
        }
    }

    fn count(&self, output: &Output<Environment>) {
        let Environment { meters, memory, .. } = &self.sessions.environment;
        if let Output::Answer(_, answer) = output {
            match answer {
                Ok(_) => meters.ops.increment(1),
                Err(reject) => meters.rejected(reject),
            }
        }
        if let Output::Publish { batch, .. } = output {
            meters.events.increment(batch.events.len() as u64);
            // What people want to be remembered is found from now on.
            for committed in &batch.events {
                if let Event::Recorded { chronicle, record, .. } = &committed.event {
                    memory.noticed(self.worker.session().id(), chronicle, record);
                }
            }
        }
    }

    fn start(&mut self, start: Start<Environment>) {
        let Some(mailbox) = self.mailbox.upgrade() else { return };
        let session = self.worker.session();
        let Some(turn) = session.turns().find(|known| known.turn == start.turn) else { return };
        let environment = &self.sessions.environment;
        let executor = environment.host.start(session, turn, mailbox, environment, start);
        self.executors.insert(turn.turn.clone(), executor);
    }

    fn notify(&mut self, turn: &TurnId, notice: Notice) {
        let Notice::Over(end) = notice else {
            if let Some(executor) = self.executors.get(turn) {
                executor.notify(notice);
            }
            return;
        };
        // Dropping the executor tells its agent that the turn is over.
        let Some(executor) = self.executors.remove(turn) else { return };
        // One that is offered again is not told: another executor goes on with it.
        if let Some(end) = end {
            self.ended(turn, &executor, &end);
        }
    }

    fn ended(&self, turn: &TurnId, executor: &Execution, end: &TurnEnd) {
        turn_ended(&executor.agent, end);
        log_failure(self.worker.session().id(), turn, &executor.agent, end);
        let expired = end.outcome == TurnOutcome::Expired;
        executor.board.explain(if expired { "deadline exceeded" } else { "over" });
    }
}

impl Drop for SessionTask {
    fn drop(&mut self) {
        for output in self.worker.abandon() {
            if let Output::Answer(reply, answer) = output {
                reply.deliver(answer).map(|(waiter, answer)| waiter.send(answer));
            }
        }
    }
}

/// Why something could not be read, in the words of a session worker.
pub(crate) fn read_failed(error: &StoreError) -> ReadFailed {
    ReadFailed(error.to_string())
}

fn append_failed(error: &StoreError) -> AppendFailed {
    match error {
        StoreError::Conflict { .. } => AppendFailed::Conflict,
        StoreError::Closed => AppendFailed::Closed,
        StoreError::Failed(_) => AppendFailed::Unknown(error.to_string()),
        StoreError::Full | StoreError::Refused(_) | StoreError::Corrupt(_) => {
            AppendFailed::Refused(error.to_string())
        }
    }
}

const BATCH_COMMANDS: usize = 1024;
const SMALL_BATCH: usize = 4;
