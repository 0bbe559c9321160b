//! The client's copy of the state: what the server said last, and what the client has done since.
//!
//! The server decides. Until it has, the client behaves as if its own events had been accepted, so that a user
//! who interrupts is listened to at once; what the server says in the meantime is what these are then tried on.

use std::collections::VecDeque;

use crate::matrix::{Machine, State, Trigger, transition};

/// The state, as the server and the client see it.
#[derive(Debug, Default)]
pub(super) struct Follow {
    told: Machine,
    /// What was sent and not answered, the oldest first.
    ahead: VecDeque<(String, Trigger)>,
}

/// How many events may be unanswered.
const MOST_AHEAD: usize = 16;

impl Follow {
    /// The state if everything that was sent is accepted.
    pub(super) fn state(&self) -> State {
        self.ahead
            .iter()
            .fold(self.told.state(), |state, (_, trigger)| next(state, *trigger).unwrap_or(state))
    }

    /// The state that the server told last.
    pub(super) const fn agreed(&self) -> State {
        self.told.state()
    }

    /// The number of the last state that the server told.
    pub(super) const fn seq(&self) -> u64 {
        self.told.seq()
    }

    /// Moves on without asking anybody: to connect, to hang up, and always in internal mode.
    pub(super) fn fire(&mut self, trigger: Trigger) -> bool {
        self.ahead.clear();
        self.told.fire(trigger).is_ok()
    }

    /// An event was sent that leads on, if it is accepted.
    pub(super) fn sent(&mut self, id: String, trigger: Trigger) {
        self.ahead.push_back((id, trigger));
        if self.ahead.len() > MOST_AHEAD {
            self.ahead.pop_front();
        }
    }

    /// Whether this was sent and not answered.
    pub(super) fn awaits(&self, trigger: Trigger) -> bool {
        self.ahead.iter().any(|(_, sent)| *sent == trigger)
    }

    /// The server says that the state has changed.
    pub(super) fn changed(&mut self, state: State, seq: u64, trigger: &str) {
        self.told.adopt(state, seq);
        let trigger = Trigger::from_name(trigger);
        if let Some(place) =
            self.ahead.iter().position(|(_, sent)| trigger.is_some_and(|it| is_same(it, *sent)))
        {
            // Whatever was sent before it was passed over.
            self.ahead.drain(..=place);
        }
        self.drop_impossible();
    }

    /// The server refused an event, and says what the state is (VIP-024).
    pub(super) fn refused(&mut self, id: Option<&str>, told: Option<(State, u64)>) {
        self.ahead.retain(|(sent, _)| id != Some(sent.as_str()));
        if let Some((state, seq)) = told {
            self.told.adopt(state, seq);
        }
        self.drop_impossible();
    }

    /// The server has sent something that leads on by itself, and says so next.
    pub(super) fn led(&mut self, trigger: Trigger) {
        if self.told.fire(trigger).is_ok() {
            self.drop_impossible();
        }
    }

    fn drop_impossible(&mut self) {
        let mut state = self.told.state();
        self.ahead.retain(|(_, trigger)| match next(state, *trigger) {
            Some(then) => {
                state = then;
                true
            }
            None => false,
        });
    }
}

/// Where an event of the client leads, with the races that the server resolves in its favour (R1, R2).
fn next(state: State, trigger: Trigger) -> Option<State> {
    match (state, trigger) {
        (State::AiSpeaking, Trigger::InputStart) => transition(state, Trigger::InputBargeIn),
        (State::Idle, Trigger::InputBargeIn) => transition(state, Trigger::InputStart),
        _ => transition(state, trigger),
    }
}

fn is_same(told: Trigger, sent: Trigger) -> bool {
    let takes_floor = |trigger| matches!(trigger, Trigger::InputStart | Trigger::InputBargeIn);
    told == sent || takes_floor(told) && takes_floor(sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_state(state: State, seq: u64) -> Follow {
        let mut follow = Follow::default();
        follow.changed(state, seq, "");
        follow
    }

    #[test]
    fn what_was_sent_counts_until_the_server_decides() {
        let mut follow = in_state(State::Idle, 3);
        follow.sent("c-1".into(), Trigger::InputStart);
        follow.sent("c-2".into(), Trigger::InputEnd);
        assert_eq!((follow.state(), follow.seq()), (State::AiThinking, 3));
        follow.changed(State::UserSpeaking, 4, "input.start");
        assert_eq!((follow.state(), follow.seq()), (State::AiThinking, 4));
        follow.changed(State::AiThinking, 5, "input.end");
        assert_eq!((follow.state(), follow.awaits(Trigger::InputEnd)), (State::AiThinking, false));
    }

    #[test]
    fn races_are_resolved_as_the_server_does() {
        // Playback ended while the user interrupted.
        let mut follow = in_state(State::AiSpeaking, 6);
        follow.sent("c-1".into(), Trigger::InputBargeIn);
        follow.changed(State::Idle, 7, "audio.complete");
        assert_eq!(follow.state(), State::UserSpeaking);
        follow.changed(State::UserSpeaking, 8, "input.start");
        assert!(!follow.awaits(Trigger::InputBargeIn));
        // The server began to speak while the user did.
        let mut follow = in_state(State::Idle, 1);
        follow.sent("c-1".into(), Trigger::InputStart);
        follow.changed(State::AiSpeaking, 2, "server.announce");
        assert_eq!(follow.state(), State::UserSpeaking);
    }

    #[test]
    fn what_can_no_longer_happen_is_forgotten() {
        let mut follow = in_state(State::AiSpeaking, 6);
        follow.sent("c-1".into(), Trigger::AudioComplete);
        follow.changed(State::UserSpeaking, 7, "input.barge_in");
        follow.changed(State::AiThinking, 8, "input.end");
        follow.changed(State::AiSpeaking, 9, "response.audio");
        assert_eq!(follow.state(), State::AiSpeaking);
    }

    #[test]
    fn a_refusal_takes_back_what_was_believed() {
        let mut follow = in_state(State::Idle, 3);
        follow.sent("c-1".into(), Trigger::InputStart);
        follow.sent("c-2".into(), Trigger::InputEnd);
        follow.refused(Some("c-1"), Some((State::InvokeAction, 9)));
        assert_eq!((follow.state(), follow.seq()), (State::InvokeAction, 9));
        assert!(!follow.awaits(Trigger::InputEnd));
        for number in 0..40 {
            follow.sent(format!("c-{number}"), Trigger::ActionResult);
        }
        assert_eq!(follow.ahead.len(), MOST_AHEAD);
    }
}
