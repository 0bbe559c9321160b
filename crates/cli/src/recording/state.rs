//! What the events of a session lead to.

use sha2::{Digest as _, Sha256};
use switchboard_core::{Committed, Session, SessionId, SessionLimits, hex};

use super::Outcome;

/// Applies events to an empty session; refuses a log with a gap.
pub(crate) fn outcome(session: &SessionId, events: &[Committed]) -> Result<Outcome, String> {
    let mut state = Session::new(session.clone(), SessionLimits::default());
    for (event, expected) in events.iter().zip(1_u64..) {
        if event.position.seq != expected {
            return Err(format!("event {expected} is missing: {} follows instead", event.position));
        }
        state.apply(event);
    }
    let state = serde_json::to_value(&state).map_err(|error| error.to_string())?;
    let digest = Sha256::digest(state.to_string());
    let sha256 = hex(&digest);
    Ok(Outcome { events: events.len() as u64, sha256, state })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn events() -> Vec<Committed> {
        let opened = json!({"session_opened": {"owner": "ann", "epoch": 7, "agent": "echo"}});
        let renamed = |name: &str| json!({"session_renamed": {"name": name}});
        let events = [opened, renamed("tea"), renamed("coffee")];
        let committed = events.into_iter().zip(1_u64..).map(|(event, seq)| {
            let line = json!({"position": {"epoch": 7, "seq": seq}, "at": seq, "event": event});
            serde_json::from_value(line).unwrap()
        });
        committed.collect()
    }

    #[test]
    fn the_same_events_lead_to_the_same_state_and_others_to_another() {
        let id = SessionId::from("ses_1");
        let whole = outcome(&id, &events()).unwrap();
        assert_eq!(whole, outcome(&id, &events()).unwrap());
        assert_eq!((whole.events, &whole.state["name"]), (3, &json!("coffee")));
        let part = outcome(&id, &events()[..2]).unwrap();
        assert_ne!(whole.sha256, part.sha256);
    }

    #[test]
    fn a_gap_is_noticed() {
        let mut events = events();
        events.remove(1);
        assert!(outcome(&SessionId::from("ses_1"), &events).unwrap_err().starts_with("event 2 is missing"));
    }
}
