//! What holds for a session whatever is asked of it, by whom and when.

#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test may panic, and a property is about few of the events"
)]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::Value;
use switchboard_core::{
    Actor, CallId, Committed, Event, MessageId, Op, Position, Reject, Reply, Row, Session, Timestamp, TurnId,
    TurnState, rows,
};

mod world;

use world::{Step, Who, World, limits, steps};

const STEPS: usize = 60;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_replayed_session_equals_the_live_one(steps in steps(STEPS)) {
        let world = World::after(&steps);
        let mut replayed = Session::new("ses".into(), limits());
        for committed in &world.log {
            replayed.apply(committed);
        }
        prop_assert_eq!(replayed, world.session);
    }

    #[test]
    fn a_session_replayed_from_stored_bytes_equals_the_live_one(steps in steps(STEPS)) {
        let world = World::after(&steps);
        let mut from_json = Session::new("ses".into(), limits());
        let mut from_msgpack = Session::new("ses".into(), limits());
        for committed in &world.log {
            let json: Committed = serde_json::from_slice(&serde_json::to_vec(committed).unwrap()).unwrap();
            let msgpack: Committed = rmp_serde::from_slice(&rmp_serde::to_vec_named(committed).unwrap()).unwrap();
            prop_assert_eq!(&json, committed);
            prop_assert_eq!(&msgpack, committed);
            from_json.apply(&json);
            from_msgpack.apply(&msgpack);
        }
        prop_assert_eq!(&from_json, &world.session);
        prop_assert_eq!(&from_msgpack, &world.session);
    }

    #[test]
    fn a_snapshot_and_the_rest_of_the_log_equal_the_live_session(
        steps in steps(STEPS),
        cut in any::<prop::sample::Index>(),
    ) {
        let world = World::after(&steps);
        let (before, after) = world.log.split_at(cut.index(world.log.len() + 1));
        let mut session = Session::new("ses".into(), limits());
        before.iter().for_each(|committed| session.apply(committed));
        let msgpack = rmp_serde::to_vec_named(&session).unwrap();
        let json = serde_json::to_vec(&session).unwrap();
        let restored: [Session; 2] =
            [rmp_serde::from_slice(&msgpack).unwrap(), serde_json::from_slice(&json).unwrap()];
        for restored in restored {
            let mut restored = restored.with_limits(limits());
            prop_assert_eq!(&restored, &session);
            after.iter().for_each(|committed| restored.apply(committed));
            prop_assert_eq!(&restored, &world.session);
        }
    }

    #[test]
    fn a_turn_ends_at_most_once_and_nothing_of_it_follows(steps in steps(STEPS)) {
        let world = World::after(&steps);
        let (mut accepted, mut stopped, mut ended) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (mut placed, mut started) = (BTreeSet::new(), BTreeSet::new());
        for Committed { event, .. } in &world.log {
            let Some(turn) = event.turn() else { continue };
            prop_assert!(!ended.contains(turn), "after its end: {:?}", event);
            match event {
                Event::MessageAdded { message } => {
                    let input = message.id == MessageId::input_of(turn);
                    prop_assert!(!input || placed.insert(turn));
                    prop_assert!(!started.contains(turn) && !stopped.contains(turn));
                    prop_assert!(input || !accepted.contains(turn), "told after it was accepted");
                }
                Event::TurnAccepted { .. } => prop_assert!(accepted.insert(turn)),
                Event::TurnEnded { .. } => prop_assert!(accepted.contains(turn) && ended.insert(turn)),
                _ => {
                    prop_assert!(accepted.contains(turn), "before its start: {:?}", event);
                    prop_assert!(!stopped.contains(turn), "after its interrupt: {:?}", event);
                }
            }
            if matches!(event, Event::TurnInterrupted { .. }) {
                stopped.insert(turn);
            }
            if matches!(event, Event::TurnStarted { .. }) {
                started.insert(turn);
            }
        }
        let live: BTreeSet<&TurnId> = world.session.turns().map(|turn| &turn.turn).collect();
        prop_assert_eq!(accepted.difference(&ended).copied().collect::<BTreeSet<_>>(), live);
    }

    #[test]
    fn every_call_ends_once_and_before_its_turn(steps in steps(STEPS)) {
        let world = World::after(&steps);
        let mut open: BTreeMap<&CallId, &TurnId> = BTreeMap::new();
        for Committed { event, .. } in &world.log {
            match event {
                Event::CallRequested { turn, call } => prop_assert_eq!(open.insert(&call.id, turn), None),
                Event::CallProgress { turn, call, .. } => prop_assert_eq!(open.get(call), Some(&turn)),
                Event::CallEnded { turn, call, .. } => prop_assert_eq!(open.remove(call), Some(turn)),
                Event::TurnInterrupted { turn, .. } | Event::TurnEnded { turn, .. } => {
                    prop_assert!(open.values().all(|other| *other != turn), "calls outlive {}", turn);
                }
                _ => {}
            }
        }
        let waiting: usize = world.session.turns().map(|turn| turn.calls.len()).sum();
        prop_assert_eq!(open.len(), waiting);
    }

    #[test]
    fn deciding_changes_nothing_and_is_deterministic(steps in steps(STEPS)) {
        let mut world = World::new();
        for step in &steps {
            let (actor, op) = world.resolve(step);
            let before = world.session.clone();
            let first = world.session.decide(&actor, &op, world.now);
            prop_assert_eq!(&first, &before.decide(&actor, &op, world.now));
            prop_assert_eq!(&world.session, &before);
            world.take(step);
        }
    }

    #[test]
    fn positions_are_dense_and_replies_tell_the_truth(steps in steps(STEPS)) {
        let mut world = World::new();
        for step in &steps {
            world.now = world.now.after(std::time::Duration::from_millis(step.wait_ms));
            let (actor, op) = world.resolve(step);
            match world.ask(&actor, &op) {
                Ok(Reply::Applied { head }) => prop_assert_eq!(head, world.session.head()),
                Ok(Reply::Attachment(view)) => {
                    prop_assert_eq!(world.session.attachment(&view.attachment), Some(*view));
                }
                Ok(Reply::Turn { turn: told, accepted, .. }) => {
                    let committed = &world.log[usize::try_from(accepted.seq).unwrap() - 1];
                    let is_it = matches!(&committed.event, Event::TurnAccepted { turn, .. } if *turn == told);
                    prop_assert!(is_it, "{:?}", committed);
                }
                Ok(Reply::Claimed { fence }) => {
                    let Op::Claim { turn, .. } = &op else { panic!("{op:?}") };
                    prop_assert_eq!(world.session.turn(turn).unwrap().claim.as_ref().unwrap().fence, fence);
                }
                Ok(other) => prop_assert!(false, "{:?}", other),
                Err(_) => {}
            }
        }
        for (committed, seq) in world.log.iter().zip(1..) {
            prop_assert_eq!(committed.position, Position { epoch: 3, seq });
        }
        prop_assert_eq!(world.session.head().seq, world.log.len() as u64);
    }

    #[test]
    fn waiting_turns_are_numbered_without_holes_and_were_told_so(steps in steps(STEPS)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
            let mut serial: Vec<&TurnState> = world.session.turns().filter(|turn| turn.serial).collect();
            serial.sort_by_key(|turn| turn.accepted);
            for (turn, place) in serial.iter().zip(0..) {
                let expected = (place > 0).then_some(place);
                prop_assert_eq!(turn.queued, expected, "{}", turn.turn);
                prop_assert!(place == 0 || turn.claim.is_none(), "{} runs out of turn", turn.turn);
                if place > 0 {
                    prop_assert_eq!(world.places.get(&turn.turn), Some(&place));
                }
            }
            prop_assert!(world.session.turns().all(|turn| turn.serial || turn.queued.is_none()));
        }
    }

    #[test]
    fn waking_on_time_always_gets_somewhere(steps in steps(STEPS)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
            let Some(wake) = world.session.next_wake() else { continue };
            let decision = world.session.decide(&Actor::server(), &Op::Wake, wake.max(world.now)).unwrap();
            prop_assert!(!decision.events.is_empty(), "nothing happens at {:?}", wake);
            if let Some(just_before) = wake.as_micros().checked_sub(1).map(Timestamp::from_micros)
                && just_before >= world.now
            {
                let early = world.session.decide(&Actor::server(), &Op::Wake, just_before).unwrap();
                prop_assert_eq!(early.events, vec![]);
            }
        }
    }

    #[test]
    fn a_session_left_alone_comes_to_rest(steps in steps(STEPS)) {
        let mut world = World::after(&steps);
        world.ask(&Actor::server(), &Op::Recover).unwrap();
        let mut wakes = 0;
        while let Some(wake) = world.session.next_wake() {
            world.now = world.now.max(wake);
            prop_assert!(world.wake() > 0);
            prop_assert!(world.session.next_wake().is_none_or(|next| next > world.now || next == Timestamp::NEVER));
            wakes += 1;
            prop_assert!(wakes <= 64, "still busy at {:?}", world.now);
        }
        prop_assert!(!world.session.is_live());
    }

    #[test]
    fn strangers_learn_nothing_from_any_op(steps in steps(STEPS), probes in steps(20)) {
        let mut world = World::after(&steps);
        let before = world.session.clone();
        for probe in probes {
            world.take(&Step { actor: Some(Who::Stranger), ..probe });
        }
        prop_assert_eq!(world.session, before);
    }

    #[test]
    fn the_state_stays_within_its_limits(steps in steps(STEPS * 2)) {
        let mut world = World::new();
        let limits = limits();
        let bounds = [
            ("participants", limits.participants),
            ("attachments", limits.attachments),
            ("tools", limits.tools),
            ("turns", limits.running_turns + limits.queued_turns),
            ("ended", limits.ended_turns),
            ("requests", limits.requests),
            ("recent_messages", 1024),
        ];
        for step in &steps {
            world.take(step);
            let running = world.session.turns().filter(|turn| turn.queued.is_none()).count();
            prop_assert!(running <= limits.running_turns);
            for turn in world.session.turns() {
                prop_assert!(turn.text.len() <= limits.answer_bytes && turn.calls.len() <= limits.open_calls);
            }
        }
        let state = serde_json::to_value(&world.session).unwrap();
        for (field, bound) in bounds {
            let size = match &state[field] {
                Value::Object(map) => map.len(),
                Value::Array(list) => list.len(),
                other => panic!("{field} is {other:?}"),
            };
            prop_assert!(size <= bound, "{} {}", size, field);
        }
        prop_assert!(state.to_string().len() < 32 << 10, "{} bytes", state.to_string().len());
    }

    #[test]
    fn revisions_and_fences_only_grow(steps in steps(STEPS)) {
        let world = World::after(&steps);
        let mut last_revision = 0;
        let (mut fences, mut generations) = (BTreeMap::new(), BTreeMap::new());
        for Committed { event, .. } in &world.log {
            match event {
                Event::ToolsChanged { revision, .. } => {
                    prop_assert_eq!(*revision, last_revision + 1);
                    last_revision = *revision;
                }
                Event::TurnStarted { turn, claim } => {
                    let before = fences.insert(turn, claim.fence);
                    prop_assert_eq!(claim.fence, before.unwrap_or(0) + 1);
                }
                Event::AttachmentOpened { attachment, generation, .. } => {
                    prop_assert!(generations.insert(attachment, *generation).is_none_or(|old| old < *generation));
                }
                Event::AttachmentDetached { attachment, generation } => {
                    prop_assert_eq!(generations.get(attachment), Some(generation));
                }
                Event::AttachmentClosed { attachment } => {
                    prop_assert!(generations.remove(attachment).is_some());
                }
                _ => {}
            }
        }
        prop_assert_eq!(world.session.view().tools_revision, last_revision);
    }

    #[test]
    fn rows_are_rebuilt_as_they_were_and_each_ended_turn_has_one_final_row(steps in steps(STEPS)) {
        let world = World::after(&steps);
        let mut session = Session::new("ses".into(), limits());
        let mut finals: BTreeMap<&TurnId, usize> = BTreeMap::new();
        let mut messages = BTreeSet::new();
        for (committed, live) in world.log.iter().zip(&world.rows) {
            prop_assert_eq!(&rows(&session, committed), live);
            session.apply(committed);
            for row in live {
                match row {
                    Row::Turn(row) if !["accepted", "running"].contains(&row.status.as_str()) => {
                        prop_assert_eq!(row.ended, Some(committed.position.seq));
                        *finals.entry(&row.turn).or_default() += 1;
                    }
                    Row::Turn(row) => prop_assert!(!finals.contains_key(&row.turn) && row.ended.is_none()),
                    Row::Message(row) => {
                        prop_assert!(messages.insert(&row.message), "{} twice", row.message);
                        prop_assert!(row.parent.as_ref().is_none_or(|parent| messages.contains(parent)));
                    }
                    Row::Request(row) => prop_assert_eq!(row.accepted, committed.position.seq),
                    Row::Device(row) => prop_assert_eq!(row.reported_at, committed.at),
                    Row::Edited(row) => prop_assert!(messages.contains(&row.message)),
                    Row::Chronicled(_) => prop_assert!(false, "a session knows nothing of chronicles"),
                }
            }
        }
        let mut ended = BTreeMap::new();
        for Committed { event, .. } in &world.log {
            if let Event::TurnEnded { turn, .. } = event {
                ended.insert(turn, 1);
            }
        }
        prop_assert_eq!(finals, ended);
        prop_assert_eq!(world.session.summary().map(|row| row.head), Some(world.log.len() as u64));
    }
}

#[test]
fn random_runs_reach_every_event_and_every_refusal() {
    let mut runner = TestRunner::deterministic();
    let (mut events, mut refusals) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..256 {
        let world = World::after(&steps(STEPS).new_tree(&mut runner).unwrap().current());
        events.extend(world.log.iter().map(|committed| committed.event.name()));
        refusals.extend(world.refusals.iter().map(kind));
    }
    assert_eq!(events.len(), 19, "{events:?}");
    let expected = [
        "NotFound",
        "Forbidden",
        "UnknownTurn",
        "TurnOver",
        "Fenced",
        "DuplicateTurn",
        "CallGone",
        "UnknownTool",
        "UnknownMessage",
        "KeyConflict",
        "AttachmentGone",
        "Invalid",
        "participants",
        "attachments",
        "tools",
        "queued_turns",
        "running_turns",
        "answer_bytes",
        "open_calls",
    ];
    for expected in expected {
        assert!(refusals.contains(expected), "{expected} is missing in {refusals:?}");
    }
}

/// The kind of a refusal, or the limit that it names.
fn kind(reject: &Reject) -> String {
    if let Reject::Limit { what } = reject {
        return (*what).to_owned();
    }
    let text = format!("{reject:?}");
    text.split(['(', ' ']).next().unwrap_or_default().to_owned()
}
