//! The same cases for every store.

use std::sync::Arc;

use serde_json::json;
use switchboard_core::model::{Author, Finish, Part, TurnOutcome};
use switchboard_core::{
    Callsign, DeviceRow, MessageId, MessageStatus, Position, PrincipalId, SessionId, SessionRow, Timestamp,
    TurnId,
};
use switchboard_store::{Append, DeviceFilter, Log, MemoryLog, SessionFilter, StoreError, Usage};

use crate::scribe::{EPOCH, Scribe, all, open, text};
use crate::tally;

macro_rules! for_every_store {
    ($($case:ident),+ $(,)?) => {
        mod memory {
            use super::*;
            $(#[tokio::test]
            async fn $case() {
                super::$case(&MemoryLog::with_chroniclers(tally::chroniclers())).await;
            })+
        }
        mod sqlite {
            use super::*;
            $(#[tokio::test]
            async fn $case() {
                let folder = tempfile::tempdir().unwrap();
                super::$case(&open(&folder)).await;
            })+
        }
    };
}
pub(crate) use for_every_store;

for_every_store! {
    what_is_appended_can_be_read,
    reading_is_bounded_and_starts_inside_a_batch,
    a_stale_head_conflicts_and_changes_nothing,
    a_session_that_was_released_goes_on,
    malformed_appends_are_refused,
    loading_begins_at_the_last_snapshot,
    sessions_are_listed_newest_first,
    lists_of_sessions_go_on_where_they_ended,
    turns_are_rows,
    history_walks_to_the_root,
    history_ends_where_parents_form_a_ring,
    messages_can_be_put_right,
    keys_lead_to_their_latest_turn,
    old_keys_are_forgotten,
    devices_are_rows,
    devices_are_listed_by_name,
    devices_follow_the_session_in_which_they_enrolled_last,
    figures_are_counted,
    what_principals_store_is_counted,
    a_closed_store_refuses,
}

async fn what_is_appended_can_be_read(log: &dyn Log) {
    let mut scribe = Scribe::new("s", "ann");
    let id = scribe.id().clone();
    assert!(log.load(&id).await.unwrap().is_none());
    assert!(log.session(&id).await.unwrap().is_none());
    assert!(log.read(&id, 0, 10).await.unwrap().is_empty());

    let appends = [scribe.open(), scribe.start("t", "hello", None), scribe.say("t", 5)];
    for append in &appends {
        log.append(append.clone()).await.unwrap();
    }
    let expected: Vec<_> = appends.iter().flat_map(|append| append.batch.events.clone()).collect();
    assert_eq!(all(log, &id).await, expected);
    assert_eq!(log.session(&id).await.unwrap(), scribe.session.summary());
    assert!(log.read(&id, 9, 10).await.unwrap().is_empty());
    assert!(log.read(&id, u64::MAX, 10).await.unwrap().is_empty());
    assert!(log.read(&SessionId::from("other"), 0, 10).await.unwrap().is_empty());
    assert_eq!(Scribe::resume(log, "s", "ann").await.session, scribe.session);
}

async fn reading_is_bounded_and_starts_inside_a_batch(log: &dyn Log) {
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    log.append(scribe.start("t", "hello", None)).await.unwrap();
    for _ in 0..10 {
        log.append(scribe.say("t", 4)).await.unwrap();
    }
    let batches = log.read(scribe.id(), 0, 6).await.unwrap();
    assert_eq!(batches.iter().map(|batch| batch.events.len()).collect::<Vec<_>>(), [1, 3, 4]);
    let batches = log.read(scribe.id(), 6, 5).await.unwrap();
    assert_eq!((batches[0].first(), batches[0].last()), (7, 8));
    assert_eq!((batches[1].first(), batches[1].last()), (9, 12));
    assert_eq!(batches.len(), 2);
    assert!(log.read(scribe.id(), 0, 0).await.unwrap().is_empty());
}

async fn a_stale_head_conflicts_and_changes_nothing(log: &dyn Log) {
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    let mut rival = Scribe::resume(log, "s", "ann").await;
    log.append(scribe.start("mine", "hello", None)).await.unwrap();

    let late = rival.start("theirs", "hello", Some("key"));
    let outcome = log.append(late).await;
    assert!(
        matches!(outcome, Err(StoreError::Conflict { head: Position { epoch: EPOCH, seq: 4 } })),
        "{outcome:?}"
    );
    let again = Scribe::new("s", "bob").open();
    assert!(matches!(log.append(again).await, Err(StoreError::Conflict { .. })));
    assert_eq!(all(log, scribe.id()).await.len(), 4);
    assert_eq!(log.session(scribe.id()).await.unwrap(), scribe.session.summary());
    assert_eq!(log.turns(scribe.id(), 0, 10).await.unwrap().len(), 1);
    assert!(log.request(&PrincipalId::from("ann"), "key").await.unwrap().is_none());

    let mut wrong_epoch = scribe.say("mine", 1);
    wrong_epoch.after.epoch += 1;
    wrong_epoch.summary.epoch += 1;
    let mut batch = (*wrong_epoch.batch).clone();
    batch.events[0].position.epoch += 1;
    wrong_epoch.batch = Arc::new(batch);
    assert!(matches!(log.append(wrong_epoch).await, Err(StoreError::Conflict { .. })));
    assert_eq!(log.stats().failures, 0, "a conflict is no fault of the storage");
}

async fn a_session_that_was_released_goes_on(log: &dyn Log) {
    let mut scribe = Scribe::new("s", "ann");
    log.release(scribe.id());
    log.append(scribe.open()).await.unwrap();
    let mut rival = Scribe::resume(log, "s", "ann").await;
    log.release(scribe.id());
    log.append(scribe.start("t", "hello", None)).await.unwrap();
    log.release(scribe.id());
    let late = rival.start("theirs", "hello", None);
    assert!(matches!(log.append(late).await, Err(StoreError::Conflict { .. })), "also of what it forgot");
    log.append(scribe.say("t", 3)).await.unwrap();
    assert_eq!(log.session(scribe.id()).await.unwrap(), scribe.session.summary());
}

async fn malformed_appends_are_refused(log: &dyn Log) {
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    let good = scribe.start("t", "hello", None);
    let with_events = |change: fn(&mut switchboard_store::Batch)| {
        let mut batch = (*good.batch).clone();
        change(&mut batch);
        Append { batch: Arc::new(batch), ..good.clone() }
    };
    let bad = [
        with_events(|batch| batch.events.clear()),
        with_events(|batch| batch.events.swap(0, 1)),
        with_events(|batch| drop(batch.events.remove(0))),
        with_events(|batch| drop(batch.events.pop())),
        with_events(|batch| batch.events.iter_mut().for_each(|event| event.position.epoch += 1)),
        Append { session: SessionId::from("other"), ..good.clone() },
        Append { after: Position { epoch: EPOCH, seq: 9 }, ..good.clone() },
        Append { snapshot: Some(Arc::new(Scribe::new("s", "ann").session)), ..good.clone() },
    ];
    for append in bad {
        let outcome = log.append(append).await;
        assert!(matches!(outcome, Err(StoreError::Failed(_))), "{outcome:?}");
    }
    log.append(good).await.unwrap();
    assert_eq!(all(log, scribe.id()).await.len(), 4);
}

async fn loading_begins_at_the_last_snapshot(log: &dyn Log) {
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    log.append(scribe.start("t", "hello", None)).await.unwrap();
    log.append(scribe.write_with_snapshot(vec![text("t", "a"), text("t", "b")])).await.unwrap();
    let first = scribe.session.clone();
    log.append(scribe.say("t", 3)).await.unwrap();
    let loaded = log.load(scribe.id()).await.unwrap().unwrap();
    assert_eq!(loaded.snapshot.unwrap(), first);
    assert_eq!(loaded.batches.len(), 1);
    assert_eq!((loaded.batches[0].first(), loaded.batches[0].last()), (7, 9));

    log.append(scribe.write_with_snapshot(vec![text("t", "c")])).await.unwrap();
    let loaded = log.load(scribe.id()).await.unwrap().unwrap();
    assert_eq!(loaded.snapshot.unwrap(), scribe.session);
    assert!(loaded.batches.is_empty());
    assert_eq!(Scribe::resume(log, "s", "ann").await.session, scribe.session);
}

async fn sessions_are_listed_newest_first(log: &dyn Log) {
    let owners = ["ann", "bob", "ann", "bob", "ann"];
    let mut scribes = Vec::new();
    for (number, owner) in (0_u64..).zip(owners) {
        let mut scribe = Scribe::new(&format!("s{number}"), owner);
        scribe.clock += number * 1000;
        log.append(scribe.open()).await.unwrap();
        scribes.push(scribe);
    }
    // s0 has a turn that ended, s1 one that runs.
    scribes[0].clock += 10_000;
    log.append(scribes[0].start("t", "hello", None)).await.unwrap();
    log.append(scribes[0].end("t", TurnOutcome::Done(Finish::Complete))).await.unwrap();
    scribes[1].clock += 5_000;
    log.append(scribes[1].start("t", "hello", None)).await.unwrap();

    let everything = SessionFilter { limit: 10, ..SessionFilter::default() };
    let ann = Some(PrincipalId::from("ann"));
    assert_eq!(ids(log, &everything).await, ["s0", "s1", "s4", "s3", "s2"]);
    assert_eq!(ids(log, &SessionFilter { limit: 2, ..everything.clone() }).await, ["s0", "s1"]);
    assert_eq!(
        ids(log, &SessionFilter { owner: ann.clone(), ..everything.clone() }).await,
        ["s0", "s4", "s2"]
    );
    assert_eq!(ids(log, &SessionFilter { live: true, ..everything.clone() }).await, ["s1"]);
    assert_eq!(ids(log, &SessionFilter { used: true, ..everything.clone() }).await, ["s0", "s1"]);
    let none = SessionFilter { live: true, used: true, owner: ann, ..everything.clone() };
    assert!(ids(log, &none).await.is_empty());
    assert_eq!(log.session(scribes[1].id()).await.unwrap(), scribes[1].session.summary());

    // Of those whose identifiers the server made, only those in which something was asked.
    let (mut home, mut used) = (Scribe::new("ses_home", "ann"), Scribe::new("ses_used", "ann"));
    log.append(home.open()).await.unwrap();
    log.append(used.open()).await.unwrap();
    log.append(used.start("t", "hello", None)).await.unwrap();
    let shown = ids(log, &SessionFilter { without_homes: true, ..everything.clone() }).await;
    assert!(shown.contains(&"ses_used".to_owned()) && !shown.contains(&"ses_home".to_owned()), "{shown:?}");
    assert_eq!(shown.len(), 6);
    assert_eq!(ids(log, &everything).await.len(), 7);
}

async fn lists_of_sessions_go_on_where_they_ended(log: &dyn Log) {
    // Many at the same moment, so that the identifier has to decide.
    for number in 0..25 {
        let mut scribe = Scribe::new(&format!("s{number:02}"), "ann");
        scribe.clock += number / 10;
        log.append(scribe.open()).await.unwrap();
    }
    for owner in [None, Some(PrincipalId::from("ann"))] {
        let mut filter = SessionFilter { owner, limit: 7, ..SessionFilter::default() };
        let mut seen: Vec<SessionRow> = Vec::new();
        loop {
            let page = log.sessions(&filter).await.unwrap();
            let Some(last) = page.last() else { break };
            filter.before = Some((last.updated_at.as_micros(), last.session.clone()));
            seen.extend(page);
        }
        assert_eq!(seen.len(), 25);
        let place = |row: &SessionRow| (row.updated_at, row.session.clone());
        assert!(seen.windows(2).all(|pair| place(&pair[0]) > place(&pair[1])));
        filter.before = Some((u64::MAX, SessionId::from("zzz")));
        assert_eq!(log.sessions(&filter).await.unwrap().len(), 7);
    }
}

async fn turns_are_rows(log: &dyn Log) {
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    for turn in ["a", "b", "c"] {
        log.append(scribe.start(turn, "hello", None)).await.unwrap();
    }
    log.append(scribe.end("a", TurnOutcome::Done(Finish::Complete))).await.unwrap();
    log.append(scribe.end("b", TurnOutcome::Interrupted { abandoned: false })).await.unwrap();
    let turns = log.turns(scribe.id(), 0, 10).await.unwrap();
    let statuses: Vec<(&str, &str)> =
        turns.iter().map(|row| (row.turn.as_str(), row.status.as_str())).collect();
    assert_eq!(statuses, [("a", "done"), ("b", "interrupted"), ("c", "running")]);
    assert_eq!((turns[0].accepted, turns[0].ended), (3, Some(11)));
    assert!(turns[0].started_at < turns[0].ended_at && turns[0].started_at.is_some());
    assert_eq!((turns[2].ended, turns[2].ended_at), (None, None));
    assert_eq!(turns[2].session, *scribe.id());

    let rest = log.turns(scribe.id(), turns[0].accepted, 1).await.unwrap();
    assert_eq!(rest, turns[1..2]);
    assert!(log.turns(&SessionId::from("other"), 0, 10).await.unwrap().is_empty());
}

async fn history_walks_to_the_root(log: &dyn Log) {
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    let mut stranger = Scribe::new("z", "bob");
    log.append(stranger.open()).await.unwrap();
    for turn in ["a", "b", "c"] {
        for scribe in [&mut scribe, &mut stranger] {
            log.append(scribe.start(turn, "question", None)).await.unwrap();
            log.append(scribe.say(turn, 2)).await.unwrap();
            log.append(scribe.end(turn, TurnOutcome::Done(Finish::Complete))).await.unwrap();
        }
    }
    let tip = MessageId::answer_of(&TurnId::from("c"));
    let path = log.history(scribe.id(), &tip, 100).await.unwrap();
    let names: Vec<&str> = path.iter().map(|row| row.message.as_str()).collect();
    assert_eq!(names, ["c.out", "c.in", "b.out", "b.in", "a.out", "a.in"]);
    assert_eq!(path[5].parent, None);
    assert_eq!(path[0].parts, [Part::Text("piece piece ".into())]);
    assert_eq!(path[1].author, Author::User(PrincipalId::from("ann")));
    assert_eq!(path[0].status, MessageStatus::Complete);

    assert_eq!(log.history(scribe.id(), &tip, 2).await.unwrap(), path[..2]);
    assert_eq!(log.history(scribe.id(), &tip, usize::MAX).await.unwrap(), path);
    assert!(log.history(scribe.id(), &tip, 0).await.unwrap().is_empty());
    let middle = MessageId::input_of(&TurnId::from("b"));
    assert_eq!(log.history(scribe.id(), &middle, 100).await.unwrap(), path[3..]);
    assert!(log.history(scribe.id(), &MessageId::from("unknown"), 9).await.unwrap().is_empty());

    log.append(scribe.start("d", "question", None)).await.unwrap();
    log.append(scribe.say("d", 1)).await.unwrap();
    log.append(scribe.end("d", TurnOutcome::Expired)).await.unwrap();
    let cut_off = MessageId::answer_of(&TurnId::from("d"));
    let path = log.history(scribe.id(), &cut_off, 1).await.unwrap();
    assert_eq!(path[0].status, MessageStatus::Partial);
}

async fn history_ends_where_parents_form_a_ring(log: &dyn Log) {
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    let mut append = scribe.start("a", "hello", None);
    for row in &mut append.rows {
        if let switchboard_core::Row::Message(row) = row {
            row.parent = Some(row.message.clone());
        }
    }
    log.append(append).await.unwrap();
    let tip = MessageId::input_of(&TurnId::from("a"));
    assert_eq!(log.history(scribe.id(), &tip, 100).await.unwrap().len(), 1);
}

async fn messages_can_be_put_right(log: &dyn Log) {
    let mut scribe = Scribe::new("s", "ann");
    let mut stranger = Scribe::new("z", "bob");
    for scribe in [&mut scribe, &mut stranger] {
        log.append(scribe.open()).await.unwrap();
        log.append(scribe.tell("m", None, "first")).await.unwrap();
    }
    let message = MessageId::from("m");
    let before = log.history(scribe.id(), &message, 1).await.unwrap();
    log.append(scribe.edit("m", "second")).await.unwrap();
    log.append(scribe.edit("unknown", "third")).await.unwrap();
    let after = log.history(scribe.id(), &message, 1).await.unwrap();
    assert_eq!(after[0].parts, [Part::Text("second".into())]);
    let restored = switchboard_core::MessageRow { parts: before[0].parts.clone(), ..after[0].clone() };
    assert_eq!(restored, before[0], "nothing else has changed");
    let other = log.history(stranger.id(), &message, 1).await.unwrap();
    assert_eq!(other[0].parts, [Part::Text("first".into())], "another session has another message");
    assert!(log.history(scribe.id(), &MessageId::from("unknown"), 1).await.unwrap().is_empty());

    let mut rival = Scribe::resume(log, "s", "ann").await;
    log.append(scribe.say("t", 1)).await.unwrap();
    assert!(log.append(rival.edit("m", "never")).await.is_err());
    assert_eq!(log.history(scribe.id(), &message, 1).await.unwrap(), after);
}

async fn keys_lead_to_their_latest_turn(log: &dyn Log) {
    let mut scribe = Scribe::new("s", "ann");
    let mut other = Scribe::new("z", "ann");
    log.append(scribe.open()).await.unwrap();
    log.append(other.open()).await.unwrap();
    log.append(scribe.start("a", "hello", Some("k"))).await.unwrap();
    log.append(scribe.start("b", "hello", Some("l"))).await.unwrap();
    let ann = PrincipalId::from("ann");
    let found = log.request(&ann, "k").await.unwrap().unwrap();
    assert_eq!((found.turn.as_str(), found.accepted, found.epoch), ("a", 3, EPOCH));
    assert_eq!(found.digest, "digest of k");
    other.clock += 1000;
    log.append(other.start("c", "hello", Some("k"))).await.unwrap();
    let found = log.request(&ann, "k").await.unwrap().unwrap();
    assert_eq!((found.session.as_str(), found.turn.as_str()), ("z", "c"));
    assert!(log.request(&PrincipalId::from("bob"), "k").await.unwrap().is_none());
    assert!(log.request(&ann, "unknown").await.unwrap().is_none());

    let names = |rows: Vec<switchboard_core::RequestRow>| -> Vec<String> {
        rows.iter().map(|row| row.turn.to_string()).collect()
    };
    assert_eq!(names(log.requests(Timestamp::default(), 10).await.unwrap()), ["c", "b"]);
    assert_eq!(names(log.requests(Timestamp::default(), 1).await.unwrap()), ["c"]);
    assert_eq!(names(log.requests(found.at, 10).await.unwrap()), ["c"]);
    assert!(log.requests(Timestamp::NEVER, 10).await.unwrap().is_empty());
}

async fn old_keys_are_forgotten(log: &dyn Log) {
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    let minutes = |number: u64| number * 60_000_000;
    log.append(scribe.start("a", "hello", Some("a"))).await.unwrap();
    scribe.clock += minutes(20);
    log.append(scribe.start("b", "hello", Some("b"))).await.unwrap();
    scribe.clock += minutes(25);
    log.append(scribe.start("c", "hello", Some("c"))).await.unwrap();
    let ann = PrincipalId::from("ann");
    assert!(log.request(&ann, "a").await.unwrap().is_none());
    assert!(log.request(&ann, "b").await.unwrap().is_some());
    assert!(log.request(&ann, "c").await.unwrap().is_some());
}

async fn devices_are_rows(log: &dyn Log) {
    let mut scribe = Scribe::new("s", "ann");
    let (lab, first) = (Callsign::from("lab-7"), json!({ "cpu_count": 8, "tags": ["x", "é"] }));
    log.append(scribe.open()).await.unwrap();
    assert!(log.device(&lab).await.unwrap().is_empty());
    log.append(scribe.join("lab-7", first.clone())).await.unwrap();
    let joined = only(log, &lab).await;
    let expected = DeviceRow {
        device: lab.clone(),
        principal: PrincipalId::from("ann"),
        session: scribe.id().clone(),
        protocol: "aip".into(),
        platform: "linux".into(),
        facts: first,
        profile: json!({ "since": [1, null, -0.5] }),
        joined_at: Timestamp::from_micros(scribe.clock - 1),
        reported_at: Timestamp::from_micros(scribe.clock - 1),
        left_at: None,
        released_at: None,
    };
    assert_eq!(joined, expected);
    assert!(log.session(scribe.id()).await.unwrap().unwrap().live, "it is looked after on start");

    log.append(scribe.report("lab-7", json!({ "cpu_count": 9 }))).await.unwrap();
    let reported_at = Timestamp::from_micros(scribe.clock - 1);
    let reported = DeviceRow { facts: json!({ "cpu_count": 9 }), reported_at, ..expected };
    assert_eq!(only(log, &lab).await, reported);
    log.append(scribe.leave("lab-7")).await.unwrap();
    let left_at = Some(Timestamp::from_micros(scribe.clock - 1));
    assert_eq!(only(log, &lab).await, DeviceRow { left_at, ..reported });

    // An append that fails leaves the row alone.
    let mut rival = Scribe::resume(log, "s", "ann").await;
    log.append(scribe.start("t", "hello", None)).await.unwrap();
    assert!(log.append(rival.join("lab-7", json!(null))).await.is_err());
    assert_eq!(only(log, &lab).await.left_at, left_at);
    log.append(scribe.release("lab-7")).await.unwrap();
    let released = only(log, &lab).await;
    assert_eq!(
        (released.left_at, released.released_at),
        (left_at, Some(Timestamp::from_micros(scribe.clock - 1)))
    );
    log.append(scribe.join("lab-7", json!(null))).await.unwrap();
    let again = only(log, &lab).await;
    assert_eq!((again.left_at, again.released_at, again.facts), (None, None, json!(null)));
    assert!(again.joined_at > joined.joined_at);
}

async fn devices_are_listed_by_name(log: &dyn Log) {
    let owners = ["bob", "ann"];
    for (number, owner) in owners.into_iter().enumerate() {
        let mut scribe = Scribe::new(&format!("s{number}"), owner);
        log.append(scribe.open()).await.unwrap();
        for device in ["c", "a", "é", "b", "Z"] {
            log.append(scribe.join(device, json!({}))).await.unwrap();
        }
        log.append(scribe.leave(["a", "b"][number])).await.unwrap();
    }
    let everything = DeviceFilter { limit: 100, ..DeviceFilter::default() };
    let all = names(&log.devices(&everything).await.unwrap());
    let expected = ["Z ann", "Z bob", "a ann", "a bob", "b ann", "b bob", "c ann", "c bob", "é ann", "é bob"];
    assert_eq!(all, expected);
    assert_eq!(names(&log.device(&Callsign::from("a")).await.unwrap()), ["a ann", "a bob"]);
    let bob = Some(PrincipalId::from("bob"));
    let his = DeviceFilter { principal: bob, ..everything.clone() };
    assert_eq!(names(&log.devices(&his).await.unwrap()), ["Z bob", "a bob", "b bob", "c bob", "é bob"]);
    let offline = DeviceFilter { online: Some(false), ..everything.clone() };
    assert_eq!(names(&log.devices(&offline).await.unwrap()), ["a bob", "b ann"]);
    let online = DeviceFilter { online: Some(true), ..his.clone() };
    assert_eq!(names(&log.devices(&online).await.unwrap()), ["Z bob", "b bob", "c bob", "é bob"]);
    assert!(log.devices(&DeviceFilter { limit: 0, ..everything.clone() }).await.unwrap().is_empty());

    for filter in [everything, his, offline, online] {
        let whole = log.devices(&filter).await.unwrap();
        let mut page = DeviceFilter { limit: 3, ..filter };
        let mut seen = Vec::new();
        loop {
            let rows = log.devices(&page).await.unwrap();
            assert!(rows.len() <= 3);
            let Some(last) = rows.last() else { break };
            page.after = Some((last.device.clone(), last.principal.clone()));
            seen.extend(rows);
        }
        assert_eq!(seen, whole);
    }
}

async fn devices_follow_the_session_in_which_they_enrolled_last(log: &dyn Log) {
    let (mut old, mut new) = (Scribe::new("z", "ann"), Scribe::new("a", "ann"));
    log.append(old.open()).await.unwrap();
    log.append(new.open()).await.unwrap();
    new.clock += 1000;
    log.append(old.join("lab-7", json!({ "in": "old" }))).await.unwrap();
    log.append(new.join("lab-7", json!({ "in": "new" }))).await.unwrap();
    let lab = Callsign::from("lab-7");
    let row = only(log, &lab).await;
    assert_eq!((row.session.as_str(), &row.facts), ("a", &json!({ "in": "new" })));
    old.clock += 2000;
    log.append(old.leave("lab-7")).await.unwrap();
    assert_eq!(only(log, &lab).await, row, "what it left before says nothing of it now");
    log.append(new.leave("lab-7")).await.unwrap();
    assert!(only(log, &lab).await.left_at.is_some());
}

async fn figures_are_counted(log: &dyn Log) {
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    log.append(scribe.start("a", "hello", None)).await.unwrap();
    log.append(scribe.say("a", 10)).await.unwrap();
    let stats = log.stats();
    assert_eq!((stats.commits, stats.appends, stats.events, stats.failures), (3, 3, 14, 0));
}

/// Two sessions of Ann's, one of Bob's, and some text in each.
async fn written_by_two(log: &dyn Log) {
    for (session, owner) in [("a", "ann"), ("b", "ann"), ("c", "bob")] {
        let mut scribe = Scribe::new(session, owner);
        log.append(scribe.open()).await.unwrap();
        log.append(scribe.start("t", &"x".repeat(300_000), None)).await.unwrap();
        log.append(scribe.say("t", 10)).await.unwrap();
    }
}

async fn what_principals_store_is_counted(log: &dyn Log) {
    let usage = async |principal: &str| log.usage(&PrincipalId::from(principal)).await.unwrap();
    assert_eq!(usage("ann").await, Usage::default());
    written_by_two(log).await;
    let (ann, bob) = (usage("ann").await, usage("bob").await);
    assert_eq!((ann.sessions, bob.sessions), (2, 1));
    // A store may be a little behind.
    assert!(
        (600_000..1_500_000).contains(&ann.bytes) && (300_000..750_000).contains(&bob.bytes),
        "{ann:?} {bob:?}"
    );
}

#[tokio::test]
async fn what_principals_store_is_counted_to_the_byte_in_the_end() {
    let (folder, memory) = (tempfile::tempdir().unwrap(), MemoryLog::with_chroniclers(tally::chroniclers()));
    written_by_two(&memory).await;
    let log = open(&folder);
    written_by_two(&log).await;
    log.close().await.unwrap();
    let log = open(&folder);
    for rebuilt in [false, true] {
        if rebuilt {
            log.rebuild_projections(|_, _| {}).await.unwrap();
        }
        for principal in ["ann", "bob"].map(PrincipalId::from) {
            let expected = memory.usage(&principal).await.unwrap();
            assert_eq!(log.usage(&principal).await.unwrap(), expected, "rebuilt: {rebuilt}");
        }
    }
}

async fn a_closed_store_refuses(log: &dyn Log) {
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    log.close().await.unwrap();
    assert!(matches!(log.append(scribe.say("a", 1)).await, Err(StoreError::Closed)));
    assert!(matches!(log.load(scribe.id()).await, Err(StoreError::Closed)));
    assert!(matches!(log.sessions(&SessionFilter::default()).await, Err(StoreError::Closed)));
    assert!(matches!(log.devices(&DeviceFilter::default()).await, Err(StoreError::Closed)));
    log.close().await.unwrap();
}

/// The only row of a device.
async fn only(log: &dyn Log, device: &Callsign) -> DeviceRow {
    let mut rows = log.device(device).await.unwrap();
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

fn names(rows: &[DeviceRow]) -> Vec<String> {
    rows.iter().map(|row| format!("{} {}", row.device, row.principal)).collect()
}

async fn ids(log: &dyn Log, filter: &SessionFilter) -> Vec<String> {
    log.sessions(filter).await.unwrap().iter().map(|row| row.session.to_string()).collect()
}
