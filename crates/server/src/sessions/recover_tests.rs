//! What a process finds that the one before it has left in the midst of its own recovery.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use switchboard_agents::{Agent, Echo, EchoConfig};
use switchboard_core::model::{Author, Claim, Message, Origin, Part, TurnEnd, TurnOutcome, TurnRequest};
use switchboard_core::{
    AgentId, Committed, Event, MessageId, Position, PrincipalId, Session, SessionId, SessionLimits,
    Timestamp, TurnId, WorkerId, rows,
};
use switchboard_store::{Append, Batch, Log};

use super::testing::sessions_in;
use crate::config::Config;

/// A session with one turn whose executor was lost and that nobody has taken up again.
fn left_behind(session: &SessionId, turn: &TurnId) -> Append {
    let (owner, parts) = (PrincipalId::from("ann"), vec![Part::Text("here".into())]);
    let message = Message {
        id: MessageId::input_of(turn),
        parent: None,
        author: Author::User(owner.clone()),
        parts: parts.clone(),
        turn: turn.clone(),
        meta: Value::Null,
    };
    let origin = Origin {
        principal: owner.clone(),
        protocol: "asp".into(),
        attachment: None,
        handle: None,
        bound: false,
        options: Value::Null,
    };
    let events = [
        Event::SessionOpened { owner, epoch: 1, agent: AgentId::from("echo"), name: None },
        Event::MessageAdded { message: Box::new(message) },
        Event::TurnAccepted {
            turn: turn.clone(),
            request: Box::new(TurnRequest::Chat { parts }),
            agent: AgentId::from("echo"),
            device: None,
            origin: Box::new(origin),
            serial: true,
            held: false,
            once: false,
            setting: None,
            deadline: Timestamp::NEVER,
            parent: None,
            names: None,
            recall: None,
            workspace: None,
            key: None,
            meta: Box::new(Value::Null),
        },
        Event::TurnStarted {
            turn: turn.clone(),
            claim: Claim { worker: WorkerId::from("another process"), fence: 1, relayed: false },
        },
        Event::TurnReleased { turn: turn.clone(), deadline: None },
    ];
    let mut state = Session::new(session.clone(), SessionLimits::default());
    let (mut changed, mut committed) = (Vec::new(), Vec::new());
    for (seq, event) in (1..).zip(events) {
        let at = Timestamp::from_micros(1_700_000_000_000_000 + seq);
        let event = Committed { position: Position { epoch: 1, seq }, at, event };
        changed.extend(rows(&state, &event));
        state.apply(&event);
        committed.push(event);
    }
    Append {
        session: session.clone(),
        after: Position::default(),
        batch: Arc::new(Batch { events: committed }),
        rows: changed,
        summary: state.summary().unwrap(),
        snapshot: None,
    }
}

/// Killed once more after it had released the turn, and before it had begun it again.
#[tokio::test]
async fn a_turn_that_was_released_and_not_begun_again_is_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    let (session, turn) = (SessionId::from("s"), TurnId::from("t"));
    let echo: Arc<dyn Agent> = Arc::new(Echo::new(EchoConfig::default()));
    let agents = BTreeMap::from([(AgentId::from("echo"), echo)]);
    let (sessions, log) = sessions_in(folder.path(), &Config::default(), Vec::new(), agents);
    log.append(left_behind(&session, &turn)).await.unwrap();
    sessions.awaken(&session);
    let ended = async {
        loop {
            let batches = log.read(&session, 0, 1_000).await.unwrap();
            let mut events = batches.iter().flat_map(|batch| &batch.events);
            let end = events.find_map(|committed| {
                if let Event::TurnEnded { end, .. } = &committed.event { Some(end.clone()) } else { None }
            });
            if let Some(end) = end {
                return end;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let end = tokio::time::timeout(Duration::from_secs(10), ended).await.expect("nobody works on it");
    assert!(matches!(*end, TurnEnd { outcome: TurnOutcome::Done(_), .. }), "{end:?}");
}
