//! Sessions that are followed: each by however many chats need it, from a single place.
//!
//! A transport reads a session from one place only, so attaching again for one chat moves it for all
//! of them. Events are therefore taken in strictly in order: what comes ahead of its place, while the
//! way back is being asked for, is left alone and comes again.

use switchboard_core::{Output, Position, Reject, SessionId, SessionView};

use super::{AcolyteConnection, Pending, RpcId, Slot};

/// A session that is followed.
#[derive(Debug, Default)]
pub(super) struct Following {
    /// Chats and questions that need it.
    users: usize,
    /// The last event that was taken in; none until the session has answered.
    place: Option<Position>,
}

impl AcolyteConnection {
    /// Follows a session from now on.
    pub(super) fn follow(&mut self, session: &SessionId) {
        let following = self.followed.entry(session.clone()).or_default();
        following.users += 1;
        if following.place.is_none() {
            self.attach_at(session, None);
        }
    }

    /// Follows a session from an earlier place, or from one that others have not reached yet.
    pub(super) fn follow_from(&mut self, session: &SessionId, from: Position) {
        let following = self.followed.entry(session.clone()).or_default();
        following.users += 1;
        if following.place.is_none_or(|place| from.seq < place.seq) {
            following.place = Some(from);
            self.attach_at(session, Some(from));
        }
    }

    /// Follows a session while something is looked up in it.
    pub(super) fn follow_for(&mut self, id: RpcId, session: &SessionId) {
        let following = self.followed.entry(session.clone()).or_default();
        following.users += 1;
        // The view of the session is wanted; what others have not heard yet has to come all the same.
        let from = following.place;
        let request = self.request(Pending::Watch(id, from));
        self.out.push_back(Output::Attach(request, session.clone(), from));
    }

    /// Keeps following while the turn of an aborted chat comes to rest.
    pub(super) fn keep_following(&mut self, session: &SessionId) {
        self.followed.entry(session.clone()).or_default().users += 1;
    }

    pub(super) fn unfollow(&mut self, session: &SessionId) {
        let Some(following) = self.followed.get_mut(session) else { return };
        following.users = following.users.saturating_sub(1);
        if following.users == 0 {
            self.followed.remove(session);
            self.out.push_back(Output::Detach(session.clone()));
        }
    }

    fn attach_at(&mut self, session: &SessionId, from: Option<Position>) {
        let request = self.request(Pending::Follow(session.clone(), from));
        self.out.push_back(Output::Attach(request, session.clone(), from));
    }

    /// The transport reads the session from `from`, or from its head.
    pub(super) fn following(&mut self, session: &SessionId, from: Option<Position>, view: &SessionView) {
        let at = from.unwrap_or(view.head);
        let Some(following) = self.followed.get_mut(session) else {
            // Whoever needed it is gone.
            return self.out.push_back(Output::Detach(session.clone()));
        };
        match following.place {
            None => following.place = Some(at),
            Some(place) if place.seq < at.seq => self.attach_at(session, Some(place)),
            // What is known already comes again, and is left alone.
            Some(_) => {}
        }
    }

    /// A session cannot be followed: its chats have no way to hear of their turns.
    pub(super) fn not_followed(&mut self, session: &SessionId, reject: &Reject) {
        let Some(following) = self.followed.get_mut(session) else { return };
        // Whoever comes next has to ask again.
        following.place = None;
        let lost = self.chats.iter().filter(|(_, chat)| chat.follows && chat.session == *session);
        for id in lost.map(|(id, _)| id.clone()).collect::<Vec<RpcId>>() {
            self.lose(&id, reject);
        }
        if matches!(&self.slot, Slot::Stopping(home, _) if home == session) {
            self.rest();
        }
    }

    /// Whether an event is the next one of its session.
    pub(super) fn takes(&mut self, session: &SessionId, position: Position) -> bool {
        let Some(following) = self.followed.get_mut(session) else { return false };
        let next = following.place.is_some_and(|place| place.seq + 1 == position.seq);
        if next {
            following.place = Some(position);
        }
        next
    }

    /// Which history of a session is followed.
    pub(super) fn epoch_of(&self, session: &SessionId) -> Option<u32> {
        self.followed.get(session)?.place.map(|place| place.epoch)
    }

    /// The turn of an aborted chat has come to rest: its place is free.
    pub(super) fn rest(&mut self) {
        if let Slot::Stopping(session, _) = std::mem::replace(&mut self.slot, Slot::Free) {
            self.unfollow(&session);
            self.next();
        }
    }
}
