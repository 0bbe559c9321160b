//! What happens next: everything that is ready now, one thing at a time, then time itself.

use std::time::Duration;

use switchboard_core::{Op, SessionId, SplitMix, Timestamp, TurnId};

use super::session::own;
use super::{Order, PeerId, World};

/// Something that is ready.
#[derive(Clone, Debug)]
enum Task {
    Tell(SessionId),
    Peer(PeerId),
    Decide(SessionId),
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

    /// How many of `waiting` letters make the next batch.
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
        self.wake_sessions();
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
            Some(Task::Tell(id)) => self.tell(&id),
            Some(Task::Peer(id)) => self.run_peer(id),
            Some(Task::Decide(id)) => self.decide_batch(&id),
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
        let peers = self.peers.values().filter(|peer| !peer.over).filter_map(|peer| peer.wake);
        let sessions = self.sessions.values().filter_map(super::session::LiveSession::wake);
        let executions = self
            .sessions
            .values()
            .flat_map(|live| live.executing.values())
            .filter_map(super::executor::Execution::wake);
        peers.chain(sessions).chain(executions).min()
    }

    /// Time is an op like any other.
    fn wake_sessions(&mut self) {
        let now = self.now;
        let due: Vec<SessionId> = self
            .sessions
            .iter()
            .filter(|(_, live)| {
                live.mailbox.is_empty()
                    && live.untold.is_none()
                    && live.retry_at.is_none()
                    && live.session.next_wake().is_some_and(|at| at <= now)
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in due {
            self.schedule.count_timeout(now);
            self.mail(&id, own(Op::Wake));
        }
    }

    fn may_tell(&self, id: &SessionId) -> bool {
        self.sessions
            .get(id)
            .is_some_and(|live| live.untold.as_ref().is_some_and(|untold| untold.at <= self.now))
    }

    fn may_decide(&self, id: &SessionId) -> bool {
        self.sessions.get(id).is_some_and(|live| {
            let due = live.retry_at.is_some_and(|at| at <= self.now);
            live.untold.is_none() && (due || !live.mailbox.is_empty())
        })
    }

    fn first_task(&self) -> Option<Task> {
        if let Some(id) = self.sessions.keys().find(|id| self.may_tell(id)) {
            return Some(Task::Tell(id.clone()));
        }
        if let Some(id) = self.peers.keys().copied().find(|id| self.peer_is_ready(*id)) {
            return Some(Task::Peer(id));
        }
        if let Some(id) = self.sessions.keys().find(|id| self.may_decide(id)) {
            return Some(Task::Decide(id.clone()));
        }
        let executions = self.ready_executions();
        executions.min_by_key(|(_, _, last)| *last).map(|(id, turn, _)| Task::Execution(id, turn))
    }

    fn ready_tasks(&self) -> Vec<Task> {
        let mut ready = Vec::new();
        for id in self.sessions.keys() {
            if self.may_tell(id) {
                ready.push(Task::Tell(id.clone()));
            }
            if self.may_decide(id) {
                ready.push(Task::Decide(id.clone()));
            }
        }
        ready.extend(self.peers.keys().copied().filter(|id| self.peer_is_ready(*id)).map(Task::Peer));
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
