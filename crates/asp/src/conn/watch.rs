//! INVOKE `watch`: a request that stands for a turn which somebody else has started, in whatever
//! protocol. Ours; known to clients that agreed on the feature `watch`.

use switchboard_core::{Output, Position, SessionId, SessionView, TurnId, TurnView};

use super::{AspConnection, Pending};
use crate::error::Code;
use crate::message::Feature;
use crate::state::RequestState;

impl AspConnection {
    pub(super) fn watch(&mut self, id: u16, session: Option<&str>, turn: Option<&str>) {
        if !self.wire.features.has(Feature::Watch) {
            return self.fail_request(
                id,
                Code::InvalidInvoke,
                "kind: the feature watch was not agreed",
                None,
            );
        }
        let Some(name) = session else {
            return self.fail_request(id, Code::InvalidInvoke, "session: missing", None);
        };
        let session = if SessionId::is_canonical(name) {
            SessionId::from(name)
        } else {
            SessionId::named(&self.principal, name)
        };
        if self.take_part(id, session.clone(), None, false).is_none() {
            return self.fail_request(id, Code::QueueFull, "the connection follows too many sessions", None);
        }
        let largest = self.largest();
        self.set_state(id, RequestState::Queued);
        if let Some(request) = self.requests.get_mut(id) {
            request.watches = true;
            request.options.largest = largest;
        }
        // What goes on there is only known to who follows.
        let from = self.unseen(&session);
        let turn = turn.map(TurnId::from);
        let request = self.request(Pending::Watch(id, session.clone(), turn));
        self.out.push_back(Output::Attach(request, session, from));
    }

    /// Where a session is to be followed from so that no request misses what it has not seen; none if there are none.
    pub(super) fn unseen(&self, session: &SessionId) -> Option<Position> {
        let epoch = self.link.sessions.get(session)?.epoch;
        self.requests.settled(session).map(|seq| Position { epoch, seq })
    }

    pub(super) fn watched(&mut self, id: u16, session: SessionId, turn: Option<&TurnId>, view: &SessionView) {
        self.learn_tools(&session, view);
        let wanted = |known: &&TurnView| turn.is_none_or(|turn| known.turn == *turn);
        match view.turns.iter().filter(wanted).min_by_key(|known| known.accepted) {
            Some(known) => {
                let accepted = Position { epoch: view.head.epoch, seq: known.accepted };
                self.turn_accepted(id, session, known.turn.clone(), accepted, true);
            }
            None => self.nothing_to_watch(id),
        }
    }

    /// A session that nobody here may see looks like one in which nothing runs; asking again does not help.
    pub(super) fn nothing_to_watch(&mut self, id: u16) {
        self.fail_request(id, Code::InvalidInvoke, "no such turn runs in this session", None);
    }
}
