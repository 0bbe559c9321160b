//! What happens next: everything that is ready now, one thing at a time, then time itself.

use std::time::Duration;

use switchboard_core::{SessionId, SplitMix, Timestamp, TurnId};

use super::session::LiveSession;
use super::{Order, PeerId, World};

/// Something that is ready.
#[derive(Clone, Debug)]
enum Task {
    /// The log does what a session has asked of it, or answers.
    Log(SessionId),
    /// A session says what it wants done next.
    Work(SessionId),
    /// A time has come that a session waits for.
    Wake(SessionId),
    /// Commands are handed to a session.
    Decide(SessionId),
    Peer(PeerId),
    Execution(SessionId, TurnId),
}

/// Decides what comes first.
#[derive(Debug)]
pub(super) struct Schedule {
    order: Order,
    random: SplitMix,
    timeouts: (Timestamp, u32),
}

impl Schedule {
    pub(super) fn new(order: Order) -> Self {
        let seed = match order {
            Order::Fixed => 0,
            Order::Seeded(seed) => seed,
        };
        Self { order, random: SplitMix::new(seed), timeouts: (Timestamp::default(), 0) }
    }

    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        if bound <= 1 || self.order == Order::Fixed {
            return 0;
        }
        let number = self.random.next() % bound as u64;
        usize::try_from(number).unwrap_or(0)
    }

    /// How many of `waiting` commands make the next batch.
    pub(super) fn batch(&mut self, waiting: usize) -> usize {
        match self.order {
            Order::Fixed => waiting,
            Order::Seeded(_) => self.below(waiting) + usize::from(waiting > 0),
        }
    }

    /// Something that asks to be woken again and again at the same moment would never let time pass.
    pub(super) fn count_timeout(&mut self, now: Timestamp) {
        if self.timeouts.0 != now {
            self.timeouts = (now, 0);
        }
        self.timeouts.1 += 1;
        assert!(self.timeouts.1 < MAX_TIMEOUTS, "something asks to be woken at a time that has passed");
    }
}

impl World {
    /// Does everything that can be done without time passing.
    pub fn settle(&mut self) {
        let mut steps = 0_u64;
        while self.step() {
            steps += 1;
            assert!(steps < MAX_STEPS, "the world never comes to rest");
        }
    }

    /// Does one thing that can be done without time passing; false if there is none.
    pub fn step(&mut self) -> bool {
        let task = match self.schedule.order {
            Order::Fixed => self.first_task(),
            Order::Seeded(_) => {
                let mut ready = self.ready_tasks();
                let index = self.schedule.below(ready.len());
                if ready.is_empty() { None } else { Some(ready.swap_remove(index)) }
            }
        };
        match task {
            None => return false,
            Some(Task::Log(id)) => self.use_log(&id),
            Some(Task::Work(id)) => self.work(&id),
            Some(Task::Wake(id)) => self.wake_session(&id),
            Some(Task::Decide(id)) => self.decide_batch(&id),
            Some(Task::Peer(id)) => self.run_peer(id),
            Some(Task::Execution(id, turn)) => self.run_execution(&id, &turn),
        }
        true
    }

    /// Lets time pass, and everything happen that happens meanwhile, in order.
    pub fn advance(&mut self, millis: u64) {
        self.advance_to(self.now.after(Duration::from_millis(millis)));
    }

    /// Lets time pass until `until`.
    pub fn advance_to(&mut self, until: Timestamp) {
        loop {
            self.settle();
            match self.next_wake() {
                Some(at) if at <= until => self.now = self.now.max(at),
                _ => break,
            }
        }
        self.now = self.now.max(until);
        self.settle();
    }

    /// When something happens next by itself.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let peers = self.peers.values().filter_map(super::peer::Peer::wake);
        let sessions = self.sessions.values().filter_map(LiveSession::wake);
        let executions = self
            .sessions
            .values()
            .flat_map(|live| live.executing.values())
            .filter_map(super::executor::Execution::wake);
        peers.chain(sessions).chain(executions).min()
    }

    fn first_task(&self) -> Option<Task> {
        let now = self.now;
        let session = |may: &dyn Fn(&LiveSession) -> bool| {
            self.sessions.iter().find(|(_, live)| may(live)).map(|(id, _)| id.clone())
        };
        if let Some(id) = session(&LiveSession::may_work) {
            return Some(Task::Work(id));
        }
        if let Some(id) = session(&|live| live.may_use_log(now)) {
            return Some(Task::Log(id));
        }
        if let Some((id, _)) = self.peers.iter().find(|(_, peer)| peer.is_ready(now)) {
            return Some(Task::Peer(*id));
        }
        if let Some(id) = session(&LiveSession::may_decide) {
            return Some(Task::Decide(id));
        }
        if let Some(id) = session(&|live| live.is_due(now)) {
            return Some(Task::Wake(id));
        }
        let executions = self.ready_executions();
        executions.min_by_key(|(_, _, last)| *last).map(|(id, turn, _)| Task::Execution(id, turn))
    }

    fn ready_tasks(&self) -> Vec<Task> {
        let now = self.now;
        let mut ready = Vec::new();
        for (id, live) in &self.sessions {
            if live.may_work() {
                ready.push(Task::Work(id.clone()));
            }
            if live.may_use_log(now) {
                ready.push(Task::Log(id.clone()));
            }
            if live.may_decide() {
                ready.push(Task::Decide(id.clone()));
            }
            if live.is_due(now) {
                ready.push(Task::Wake(id.clone()));
            }
        }
        let peers = self.peers.iter().filter(|(_, peer)| peer.is_ready(now));
        ready.extend(peers.map(|(id, _)| Task::Peer(*id)));
        ready.extend(self.ready_executions().map(|(id, turn, _)| Task::Execution(id, turn)));
        ready
    }

    fn ready_executions(&self) -> impl Iterator<Item = (SessionId, TurnId, u64)> {
        self.sessions.iter().flat_map(move |(id, live)| {
            let ready = live.executing.iter().filter(|(_, execution)| execution.is_ready(self.now));
            ready.map(move |(turn, execution)| (id.clone(), turn.clone(), execution.last_run))
        })
    }
}

const MAX_STEPS: u64 = 50_000_000;
const MAX_TIMEOUTS: u32 = 100_000;
