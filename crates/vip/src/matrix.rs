//! The state machine of an interaction (§10): one table, one function, one counter.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::named::named;

named! {
    /// Where an interaction is; exactly one at any time.
    State {
        /// There is no connection.
        NotConnected = "not_connected",
        /// The handshake is under way.
        Connecting = "connecting",
        /// Nobody has the floor.
        Idle = "idle",
        /// The user has the floor.
        UserSpeaking = "user_speaking" | "listening",
        /// What the user said is being thought about.
        AiThinking = "ai_thinking" | "processing",
        /// The system has the floor.
        AiSpeaking = "ai_speaking" | "speaking",
        /// The app is doing something.
        InvokeAction = "invoke_action" | "action",
    }
}

named! {
    /// What leads from one state to another.
    Trigger {
        /// The client asks for a connection.
        ClientConnect = "client.connect",
        /// The server has accepted the context.
        ServerReady = "server.ready",
        /// The user takes the floor.
        InputStart = "input.start",
        /// The server speaks unasked.
        ServerAnnounce = "server.announce",
        /// The user has finished.
        InputEnd = "input.end",
        /// The user has not said anything after all.
        InputCancel = "input.cancel",
        /// An answer begins.
        ResponseAudio = "response.audio",
        /// The app is to do something.
        ResponseTool = "response.tool",
        /// The user takes the floor from the system.
        InputBargeIn = "input.barge_in",
        /// The answer was heard.
        AudioComplete = "audio.complete",
        /// The app has done something, and the system goes on.
        ActionResult = "action.result",
        /// The app has done something, and that was all.
        ActionDone = "action.done",
        /// It is over.
        SessionClose = "session.close",
        /// It did not work out, and nothing is lost.
        ErrorRecoverable = "error.recoverable",
        /// There is nothing to say.
        ResponseNone = "response.none",
    }
}

/// Where a trigger leads from a state; none if that is not allowed (§10.2).
pub const fn transition(from: State, trigger: Trigger) -> Option<State> {
    Some(match (from, trigger) {
        (State::NotConnected, Trigger::ClientConnect) => State::Connecting,
        (State::Connecting, Trigger::ServerReady) => State::Idle,
        (State::Idle, Trigger::InputStart) => State::UserSpeaking,
        (State::Idle, Trigger::ServerAnnounce) => State::AiSpeaking,
        (State::UserSpeaking, Trigger::InputEnd) => State::AiThinking,
        (State::UserSpeaking, Trigger::InputCancel) => State::Idle,
        (State::AiThinking, Trigger::ResponseAudio) => State::AiSpeaking,
        (State::AiThinking, Trigger::ResponseTool) => State::InvokeAction,
        (State::AiThinking, Trigger::InputBargeIn) => State::UserSpeaking,
        (State::AiThinking, Trigger::ErrorRecoverable | Trigger::ResponseNone) => State::Idle,
        (State::AiSpeaking, Trigger::AudioComplete) => State::Idle,
        (State::AiSpeaking, Trigger::InputBargeIn) => State::UserSpeaking,
        (State::InvokeAction, Trigger::ActionResult) => State::AiThinking,
        (State::InvokeAction, Trigger::ActionDone) => State::Idle,
        // Nothing ends that has not begun.
        (State::NotConnected, Trigger::SessionClose) => return None,
        (_, Trigger::SessionClose) => State::NotConnected,
        _ => return None,
    })
}

/// How many states a machine remembers.
const REMEMBERED: usize = 64;

/// The state of one interaction, and what its numbers stood for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    state: State,
    seq: u64,
    /// The states before, the latest last: that of `seq - 1`, and so on.
    before: VecDeque<State>,
}

/// A change of state that took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state now.
    pub state: State,
    /// The state before.
    pub previous: State,
    /// What led to it.
    pub trigger: Trigger,
    /// The number of the state.
    pub seq: u64,
}

/// A trigger that leads nowhere; the state stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{trigger} is not possible in {state}")]
pub struct Refused {
    /// The state.
    pub state: State,
    /// Its number.
    pub seq: u64,
    /// What was tried.
    pub trigger: Trigger,
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    /// Not connected.
    pub const fn new() -> Self {
        Self { state: State::NotConnected, seq: 0, before: VecDeque::new() }
    }

    /// The state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Its number: 0 while connecting, and one more with every transition after that.
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// What a number stood for, since the connection was asked for and as far as that is remembered.
    pub fn state_at(&self, seq: u64) -> Option<State> {
        match self.seq.checked_sub(seq)? {
            0 => Some(self.state),
            ago => {
                let ago = usize::try_from(ago).ok()?;
                self.before.get(self.before.len().checked_sub(ago)?).copied()
            }
        }
    }

    /// Changes the state.
    ///
    /// # Errors
    /// The trigger leads nowhere from here.
    pub fn fire(&mut self, trigger: Trigger) -> Result<Transition, Refused> {
        let previous = self.state;
        let Some(state) = transition(previous, trigger) else {
            return Err(Refused { state: previous, seq: self.seq, trigger });
        };
        if state == State::Connecting {
            self.seq = 0;
            self.before.clear();
        } else {
            self.seq += 1;
            self.before.push_back(previous);
            if self.before.len() > REMEMBERED {
                self.before.pop_front();
            }
        }
        self.state = state;
        Ok(Transition { state, previous, trigger, seq: self.seq })
    }

    /// Believes whoever knows better (VIP-024).
    pub fn adopt(&mut self, state: State, seq: u64) {
        if (state, seq) != (self.state, self.seq) {
            *self = Self { state, seq, before: VecDeque::new() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_understood_and_never_said() {
        for (alias, state) in [
            ("listening", State::UserSpeaking),
            ("processing", State::AiThinking),
            ("speaking", State::AiSpeaking),
            ("action", State::InvokeAction),
        ] {
            assert_eq!(State::from_name(alias), Some(state));
            assert_ne!(state.name(), alias);
            assert_eq!(serde_json::from_value::<State>(alias.into()).ok(), Some(state));
        }
        for state in State::ALL {
            assert_eq!(State::from_name(state.name()), Some(*state));
        }
        for trigger in Trigger::ALL {
            assert_eq!(Trigger::from_name(trigger.name()), Some(*trigger));
        }
    }

    #[test]
    fn numbers_begin_with_the_connection_and_grow_by_one() {
        let mut machine = Machine::new();
        assert_eq!(machine.fire(Trigger::ClientConnect).map(|change| change.seq), Ok(0));
        assert_eq!(machine.fire(Trigger::ServerReady).map(|change| change.seq), Ok(1));
        let refused = machine.fire(Trigger::InputEnd).unwrap_err();
        assert_eq!((refused.state, refused.seq), (State::Idle, 1));
        for expected in 2..200 {
            let trigger = if expected % 2 == 0 { Trigger::InputStart } else { Trigger::InputCancel };
            assert_eq!(machine.fire(trigger).map(|change| change.seq), Ok(expected));
        }
        assert_eq!(machine.state_at(199), Some(State::Idle));
        assert_eq!(machine.state_at(198), Some(State::UserSpeaking));
        assert_eq!(machine.state_at(199 - 64), Some(State::Idle));
        assert_eq!(machine.state_at(199 - 65), None);
        assert_eq!(machine.state_at(200), None);

        machine.fire(Trigger::SessionClose).unwrap();
        assert_eq!((machine.state(), machine.seq()), (State::NotConnected, 200));
        machine.fire(Trigger::ClientConnect).unwrap();
        assert_eq!((machine.seq(), machine.state_at(0)), (0, Some(State::Connecting)));

        let stored = serde_json::to_string(&machine).unwrap();
        assert_eq!(serde_json::from_str::<Machine>(&stored).unwrap(), machine);
    }

    #[test]
    fn what_is_adopted_replaces_what_was_believed() {
        let mut machine = Machine::new();
        machine.adopt(State::AiThinking, 13);
        assert_eq!((machine.state(), machine.seq()), (State::AiThinking, 13));
        assert_eq!(machine.state_at(12), None);
        assert_eq!(machine.fire(Trigger::ResponseAudio).map(|change| change.seq), Ok(14));
        assert_eq!(machine.state_at(13), Some(State::AiThinking));
    }
}
