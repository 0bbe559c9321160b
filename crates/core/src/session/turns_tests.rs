//! The way of a turn: accepted, queued, claimed, answered, ended once; and the message tree.

use std::time::Duration;

use serde_json::json;

use super::testing::*;
use crate::connection::Reply;
use crate::id::MessageId;
use crate::limits::SessionLimits;
use crate::model::{
    Actor, Claim, Event, Executor, Failure, FailureKind, Finish, NewTurn, Op, Output, Place, TurnEnd,
    TurnOutcome, TurnRequest, Usage,
};
use crate::position::Position;
use crate::reject::Reject;
use crate::session::TurnStatus;
use crate::time::Timestamp;

#[test]
fn an_accepted_turn_brings_its_message_and_is_ready_at_once() {
    let mut world = World::opened();
    let decision = world.ask(&owner(), start(chat("t1"))).unwrap();
    assert_eq!(names(&decision.events), ["message_added", "turn_accepted"]);
    let accepted = world.session.head();
    assert_eq!(
        decision.reply,
        Reply::Turn { session: "ses".into(), turn: "t1".into(), accepted, replayed: false }
    );
    assert_eq!(world.session.turn(&"t1".into()).unwrap().accepted, accepted);
    assert_eq!(world.status("t1"), Some(TurnStatus::Ready));
    assert_eq!(world.session.turn_count(), 1);
}

#[test]
fn the_reply_points_at_the_acceptance_even_when_the_turn_is_queued() {
    let mut world = World::opened();
    world.start("t1");
    let decision = world.ask(&owner(), start(chat("t2"))).unwrap();
    assert_eq!(names(&decision.events), ["turn_accepted", "turn_queued"]);
    let head = world.session.head();
    let accepted = Position { seq: head.seq - 1, ..head };
    assert!(matches!(decision.reply, Reply::Turn { accepted: told, .. } if told == accepted));
}

#[test]
fn a_turn_is_its_askers_whatever_its_origin_claims() {
    let mut world = World::opened();
    world.events(&contributor(), start(chat("t1")));
    assert_eq!(world.session.turn(&"t1".into()).unwrap().origin.principal, "contributor".into());
}

#[test]
fn a_turn_goes_to_the_agent_it_names_or_to_that_of_the_session() {
    let mut world = World::opened();
    world.start("t1");
    world.events(&owner(), start(NewTurn { agent: Some("other".into()), ..chat("t2") }));
    assert_eq!(world.session.turn(&"t1".into()).unwrap().agent, "echo".into());
    assert_eq!(world.session.turn(&"t2".into()).unwrap().agent, "other".into());
}

#[test]
fn serial_turns_queue_from_one_and_move_up_when_the_first_ends() {
    let mut world = World::opened();
    assert_eq!(announced(&world.start("t1")), []);
    assert_eq!(announced(&world.start("t2")), [("t2", 1)]);
    assert_eq!(announced(&world.start("t3")), [("t3", 2)]);
    assert_eq!(announced(&world.start("t4")), [("t4", 3)]);
    assert_eq!(world.status("t4"), Some(TurnStatus::Queued(3)));
    world.claim("t1");
    let events = world.finish("t1", 1);
    assert_eq!(names(&events), ["turn_ended", "turn_queued", "turn_queued"]);
    assert_eq!(announced(&events), [("t3", 1), ("t4", 2)]);
    assert_eq!(world.status("t2"), Some(TurnStatus::Ready));
    assert_eq!(announced(&world.start("t5")), [("t5", 3)]);
}

#[test]
fn an_interrupted_turn_in_the_middle_of_the_queue_moves_up_only_those_behind_it() {
    let mut world = World::opened();
    for turn in ["t1", "t2", "t3", "t4"] {
        world.start(turn);
    }
    assert_eq!(announced(&world.interrupt("t3")), [("t4", 2)]);
    assert_eq!(world.status("t2"), Some(TurnStatus::Queued(1)));
    assert_eq!(announced(&world.interrupt("t4")), []);
}

#[test]
fn a_stopping_turn_keeps_the_queue_where_it_is_until_it_ends() {
    let mut world = World::opened();
    world.run("t1");
    world.start("t2");
    world.interrupt("t1");
    assert_eq!(world.status("t2"), Some(TurnStatus::Queued(1)));
    assert_eq!(announced(&world.start("t3")), [("t3", 2)]);
    world.finish("t1", 1);
    assert_eq!(world.status("t2"), Some(TurnStatus::Ready));
    assert_eq!(world.status("t3"), Some(TurnStatus::Queued(1)));
}

#[test]
fn several_turns_that_end_together_leave_a_queue_without_holes() {
    let mut world = World::opened();
    for turn in ["t1", "t2", "t3", "t4", "t5"] {
        let deadline = if turn < "t3" { world.ahead(10) } else { Timestamp::NEVER };
        world.events(&owner(), start(NewTurn { deadline, ..chat(turn) }));
    }
    world.pass(10);
    let events = world.wake();
    assert_eq!(names(&events), ["turn_ended", "turn_ended", "turn_queued", "turn_queued"]);
    assert_eq!(announced(&events), [("t4", 1), ("t5", 2)]);
    assert_eq!(world.status("t3"), Some(TurnStatus::Ready));
}

#[test]
fn parallel_turns_neither_wait_nor_are_waited_for() {
    let mut world = World::opened();
    world.start("t1");
    assert_eq!(announced(&world.events(&owner(), start(parallel("t2")))), []);
    assert_eq!(world.status("t2"), Some(TurnStatus::Ready));
    assert_eq!(announced(&world.start("t3")), [("t3", 1)]);
}

#[test]
fn a_claimed_turn_runs_and_ends_with_its_answer() {
    let mut world = World::opened();
    world.start("t1");
    world.pass(5);
    let decision = world.ask(&worker(), Op::Claim { turn: "t1".into(), relayed: false }).unwrap();
    let claim = Claim { worker: "worker".into(), fence: 1, relayed: false };
    assert_eq!(decision.events, [Event::TurnStarted { turn: "t1".into(), claim }]);
    assert_eq!(decision.reply, Reply::Claimed { fence: 1 });
    assert_eq!(world.status("t1"), Some(TurnStatus::Running));
    world.pass(7);
    assert_eq!(names(&world.emit("t1", 1, "hel")), ["turn_output"]);
    world.emit("t1", 1, "lo");
    assert_eq!(world.session.turn(&"t1".into()).unwrap().text, "hello");
    world.pass(11);
    let usage = Some(Usage([("output_tokens".to_owned(), 2)].into()));
    let end = TurnEnd { output: Some(json!(1).into()), usage: usage.clone(), ..TurnEnd::complete() };
    let events = world.events(&worker(), Op::Finish { turn: "t1".into(), fence: 1, end });
    let end = end_of(&events);
    assert_eq!(end.outcome, TurnOutcome::Done(Finish::Complete));
    assert_eq!((end.output.clone(), end.usage.clone()), (Some(json!(1).into()), usage));
    let metrics = end.metrics;
    assert_eq!(
        (metrics.queue_ms, metrics.first_ms, metrics.wall_ms, metrics.cpu_ms),
        (Some(5), Some(7), Some(23), None)
    );
    assert_eq!(world.session.turns().count(), 0);
}

#[test]
fn a_turn_has_exactly_one_end() {
    let mut world = World::opened();
    world.run("t1");
    world.finish("t1", 1);
    let over = Reject::TurnOver("t1".into());
    assert_eq!(world.refusal(&worker(), finish("t1", 1)), over);
    assert_eq!(world.refusal(&worker(), emit("t1", 1, "x")), over);
    assert_eq!(world.refusal(&worker(), request("t1", question("c"))), over);
    assert_eq!(world.refusal(&worker(), Op::Claim { turn: "t1".into(), relayed: false }), over);
    assert_eq!(world.refusal(&owner(), interrupt("t1")), over);
    assert_eq!(world.refusal(&Actor::server(), lose("t1")), over);
    assert_eq!(world.wake(), []);
}

#[test]
fn ops_on_an_unknown_turn_say_so() {
    let mut world = World::opened();
    let unknown = Reject::UnknownTurn("nope".into());
    assert_eq!(world.refusal(&worker(), Op::Claim { turn: "nope".into(), relayed: false }), unknown);
    assert_eq!(world.refusal(&worker(), emit("nope", 1, "x")), unknown);
    assert_eq!(world.refusal(&worker(), finish("nope", 1)), unknown);
    assert_eq!(world.refusal(&owner(), interrupt("nope")), unknown);
    assert_eq!(world.refusal(&Actor::server(), lose("nope")), unknown);
}

#[test]
fn only_a_ready_turn_can_be_claimed() {
    let mut world = World::opened();
    world.run("t1");
    world.start("t2");
    for (turn, actor) in [("t1", worker()), ("t1", other_worker()), ("t2", worker())] {
        assert_eq!(
            world.refusal(&actor, Op::Claim { turn: turn.into(), relayed: false }),
            Reject::Fenced(turn.into())
        );
    }
    world.events(&worker(), request("t1", question("c")));
    assert_eq!(
        world.refusal(&worker(), Op::Claim { turn: "t1".into(), relayed: false }),
        Reject::Fenced("t1".into())
    );
    world.interrupt("t1");
    assert_eq!(
        world.refusal(&worker(), Op::Claim { turn: "t1".into(), relayed: false }),
        Reject::TurnOver("t1".into())
    );
}

#[test]
fn only_the_holder_of_the_claim_may_produce() {
    let mut world = World::opened();
    world.start("t1");
    assert_eq!(world.refusal(&worker(), emit("t1", 0, "x")), Reject::Fenced("t1".into()));
    world.claim("t1");
    for (actor, fence) in [(other_worker(), 1), (worker(), 2), (worker(), 0)] {
        for op in [
            emit("t1", fence, "x"),
            finish("t1", fence),
            Op::Request { turn: "t1".into(), fence, calls: vec![question("c")] },
        ] {
            assert_eq!(world.refusal(&actor, op), Reject::Fenced("t1".into()));
        }
    }
}

#[test]
fn the_fence_of_an_old_claim_is_void() {
    let mut world = World::opened();
    world.run("t1");
    world.events(&Actor::server(), lose("t1"));
    assert_eq!(world.refusal(&worker(), emit("t1", 1, "x")), Reject::Fenced("t1".into()));
    let decision = world.ask(&worker(), Op::Claim { turn: "t1".into(), relayed: false }).unwrap();
    assert_eq!(decision.reply, Reply::Claimed { fence: 2 });
    assert_eq!(world.refusal(&worker(), emit("t1", 1, "x")), Reject::Fenced("t1".into()));
    world.emit("t1", 2, "x");
}

#[test]
fn a_turn_that_passes_its_deadline_expires() {
    let mut world = World::opened();
    let deadline = world.ahead(100);
    for turn in ["t1", "t2"] {
        world.events(&owner(), start(NewTurn { deadline, ..chat(turn) }));
    }
    world.claim("t1");
    assert_eq!(world.session.next_wake(), Some(deadline));
    world.pass(99);
    assert_eq!(world.wake(), []);
    world.pass(1);
    let events = world.wake();
    assert_eq!(names(&events), ["turn_ended", "turn_ended"]);
    for event in &events {
        assert!(
            matches!(event, Event::TurnEnded { end, .. } if end.outcome == TurnOutcome::Expired),
            "{event:?}"
        );
    }
    assert_eq!(world.session.next_wake(), None);
    assert_eq!(world.refusal(&worker(), finish("t1", 1)), Reject::TurnOver("t1".into()));
}

#[test]
fn a_claim_after_the_deadline_expires_the_turn() {
    let mut world = World::opened();
    let deadline = world.ahead(100);
    world.events(&owner(), start(NewTurn { deadline, ..chat("t1") }));
    world.pass(100);
    let decision = world.ask(&worker(), Op::Claim { turn: "t1".into(), relayed: false }).unwrap();
    assert_eq!(end_of(&decision.events).outcome, TurnOutcome::Expired);
    assert!(!matches!(decision.reply, Reply::Claimed { .. }));
}

#[test]
fn a_turn_that_cannot_be_delivered_fails() {
    let mut world = World::opened();
    world.run("t1");
    world.start("t2");
    world.start("t3");
    let failure = Failure::new(FailureKind::SlowConsumer, "too slow");
    let events = world.events(
        &owner(),
        Op::Conclude { turn: "t1".into(), end: TurnEnd::new(TurnOutcome::Failed(failure.clone())) },
    );
    assert_eq!(end_of(&events).outcome, TurnOutcome::Failed(failure));
    assert_eq!(announced(&events), [("t3", 1)]);
    assert_eq!(world.refusal(&worker(), emit("t1", 1, "x")), Reject::TurnOver("t1".into()));
}

#[test]
fn a_name_of_a_turn_is_used_once() {
    let mut world = World::opened();
    world.run("t1");
    assert_eq!(world.refusal(&owner(), start(chat("t1"))), Reject::DuplicateTurn("t1".into()));
    world.finish("t1", 1);
    assert_eq!(world.refusal(&contributor(), start(chat("t1"))), Reject::DuplicateTurn("t1".into()));
}

#[test]
fn waiting_turns_are_limited() {
    let mut world = World::with_limits(SessionLimits { queued_turns: 2, ..limits() });
    for turn in ["t1", "t2", "t3"] {
        world.start(turn);
    }
    assert_eq!(world.refusal(&owner(), start(chat("t4"))), Reject::Limit { what: "queued_turns" });
    world.events(&owner(), start(parallel("t5")));
    world.interrupt("t1");
    world.start("t6");
}

#[test]
fn running_turns_are_limited_apart_from_waiting_ones() {
    let mut world = World::with_limits(SessionLimits { running_turns: 2, queued_turns: 5, ..limits() });
    world.start("t1");
    world.start("t2");
    world.events(&owner(), start(parallel("t3")));
    assert_eq!(world.refusal(&owner(), start(parallel("t4"))), Reject::Limit { what: "running_turns" });
    world.start("t5");
    world.interrupt("t1");
    assert_eq!(world.status("t2"), Some(TurnStatus::Ready));
    assert_eq!(world.refusal(&owner(), start(parallel("t4"))), Reject::Limit { what: "running_turns" });
    world.interrupt("t3");
    world.events(&owner(), start(parallel("t4")));
}

#[test]
fn the_length_of_an_answer_is_limited() {
    let mut world = World::with_limits(SessionLimits { answer_bytes: 5, ..limits() });
    world.run("t1");
    world.emit("t1", 1, "hell");
    assert_eq!(world.refusal(&worker(), emit("t1", 1, "o!")), Reject::Limit { what: "answer_bytes" });
    world.emit("t1", 1, "o");
    let long = Op::Emit { turn: "t1".into(), fence: 1, output: Output::Reasoning("at length".into()) };
    world.events(&worker(), long);
}

#[test]
fn ended_turns_are_forgotten_beyond_their_limit() {
    let mut world = World::with_limits(SessionLimits { ended_turns: 2, ..limits() });
    for turn in ["t1", "t2", "t3"] {
        world.start(turn);
        world.interrupt(turn);
    }
    assert_eq!(world.refusal(&owner(), interrupt("t1")), Reject::UnknownTurn("t1".into()));
    assert_eq!(world.refusal(&owner(), interrupt("t2")), Reject::TurnOver("t2".into()));
}

#[test]
fn a_turn_that_runs_a_tool_needs_one_of_the_agents() {
    let mut world = World::opened();
    let run = |turn: &str, name: &str| {
        let request = TurnRequest::Tool { name: name.into(), args: json!({}) };
        start(NewTurn { request, ..chat(turn) })
    };
    world.register("mine");
    world.events(&worker(), add_tools(vec![tool("its", Executor::Agent)]));
    assert_eq!(world.refusal(&owner(), run("t1", "none")), Reject::UnknownTool("none".into()));
    assert_eq!(world.refusal(&owner(), run("t1", "mine")), Reject::UnknownTool("mine".into()));
    assert_eq!(names(&world.events(&owner(), run("t1", "its"))), ["turn_accepted"]);
}

/// The parent of the message that the events add.
#[test]
fn a_message_follows_the_tip_and_an_answer_follows_its_message() {
    let mut world = World::opened();
    assert_eq!(parent(&world.start("t1")), None);
    let answers = |world: &World, turn: &str| world.session.turn(&turn.into()).unwrap().parent.clone();
    assert_eq!(answers(&world, "t1"), Some(MessageId::input_of(&"t1".into())));
    world.claim("t1");
    world.emit("t1", 1, "hello");
    world.finish("t1", 1);
    assert_eq!(parent(&world.start("t2")), Some(MessageId::answer_of(&"t1".into())));
    world.claim("t2");
    world.finish("t2", 1);
    let silent = parent(&world.start("t3"));
    assert_eq!(silent, Some(MessageId::input_of(&"t2".into())), "nothing was answered to follow");
}

#[test]
fn what_was_said_before_an_interrupt_stays_in_the_tree_but_not_what_failed() {
    let mut world = World::opened();
    world.run("t1");
    world.emit("t1", 1, "hel");
    world.interrupt("t1");
    world.finish("t1", 1);
    assert_eq!(parent(&world.start("t2")), Some(MessageId::answer_of(&"t1".into())));
    world.claim("t2");
    world.emit("t2", 1, "hel");
    let end = TurnEnd::failed(FailureKind::Execution, "broken");
    world.events(&worker(), Op::Finish { turn: "t2".into(), fence: 1, end });
    assert_eq!(parent(&world.start("t3")), Some(MessageId::input_of(&"t2".into())));
}

#[test]
fn a_variation_names_its_parent_and_becomes_the_tip() {
    let mut world = World::opened();
    world.start("t1");
    let first = MessageId::input_of(&"t1".into());
    let variation = NewTurn { place: Place::after(first.clone()), ..parallel("t2") };
    assert_eq!(parent(&world.events(&owner(), start(variation))), Some(first));
    assert_eq!(
        parent(&world.events(&owner(), start(parallel("t3")))),
        Some(MessageId::input_of(&"t2".into()))
    );
    let unknown = NewTurn { place: Place::after("nowhere".into()), ..parallel("t4") };
    assert_eq!(world.refusal(&owner(), start(unknown)), Reject::UnknownMessage("nowhere".into()));
}

#[test]
fn a_message_that_had_to_wait_follows_the_answer_it_waited_for() {
    let mut world = World::opened();
    world.run("t1");
    world.start("t2");
    world.emit("t1", 1, "first");
    world.finish("t1", 1);
    let events = world.events(&worker(), Op::Claim { turn: "t2".into(), relayed: false });
    assert_eq!(names(&events), ["message_added", "turn_started"]);
    assert_eq!(parent(&events), Some(MessageId::answer_of(&"t1".into())));
    let answers = world.session.turn(&"t2".into()).unwrap().parent.clone();
    assert_eq!(answers, Some(MessageId::input_of(&"t2".into())));
}

#[test]
fn an_unknown_parent_is_refused() {
    let mut world = World::opened();
    let lost = NewTurn { place: Place::after("nowhere".into()), ..chat("t1") };
    assert_eq!(world.refusal(&owner(), start(lost)), Reject::UnknownMessage("nowhere".into()));
}

#[test]
fn a_repeated_key_leads_to_the_same_turn() {
    let mut world = World::opened();
    let first = world.ask(&owner(), start(keyed("t1", "k", "d"))).unwrap();
    let Reply::Turn { accepted, .. } = first.reply else { panic!("{:?}", first.reply) };
    let again = |world: &mut World| {
        let decision = world.ask(&owner(), start(keyed("t2", "k", "d"))).unwrap();
        assert_eq!(decision.events, []);
        let (session, turn) = ("ses".into(), "t1".into());
        assert_eq!(decision.reply, Reply::Turn { session, turn, accepted, replayed: true });
    };
    again(&mut world);
    world.interrupt("t1");
    again(&mut world);
}

#[test]
fn a_repeated_key_is_answered_even_when_the_queue_is_full() {
    let mut world = World::with_limits(SessionLimits { queued_turns: 0, ..limits() });
    world.events(&owner(), start(keyed("t1", "k", "d")));
    assert!(matches!(
        world.ask(&owner(), start(keyed("t2", "k", "d"))).unwrap().reply,
        Reply::Turn { replayed: true, .. }
    ));
}

#[test]
fn a_key_with_another_payload_is_refused() {
    let mut world = World::opened();
    world.events(&owner(), start(keyed("t1", "k", "d")));
    assert_eq!(world.refusal(&owner(), start(keyed("t2", "k", "other"))), Reject::KeyConflict);
}

#[test]
fn the_keys_of_two_principals_are_apart() {
    let mut world = World::opened();
    world.events(&owner(), start(keyed("t1", "k", "d")));
    assert!(!world.events(&contributor(), start(keyed("t2", "k", "other"))).is_empty());
    assert_eq!(world.refusal(&contributor(), start(keyed("t3", "k", "d"))), Reject::KeyConflict);
}

#[test]
fn a_key_is_forgotten_after_its_time() {
    let memory = Duration::from_secs(10);
    let mut world = World::with_limits(SessionLimits { request_memory: memory, ..limits() });
    world.events(&owner(), start(keyed("t1", "k", "d")));
    world.pass(9_999);
    assert_eq!(world.refusal(&owner(), start(keyed("t2", "k", "e"))), Reject::KeyConflict);
    world.pass(1);
    assert!(!world.events(&owner(), start(keyed("t2", "k", "e"))).is_empty());
    assert_eq!(world.refusal(&owner(), start(keyed("t3", "k", "d"))), Reject::KeyConflict);
}

#[test]
fn the_oldest_keys_are_forgotten_beyond_their_limit() {
    let mut world = World::with_limits(SessionLimits { requests: 2, ..limits() });
    for (turn, key) in [("t1", "a"), ("t2", "b"), ("t3", "c")] {
        world.events(&owner(), start(keyed(turn, key, "d")));
    }
    assert_eq!(world.refusal(&owner(), start(keyed("t4", "b", "e"))), Reject::KeyConflict);
    assert!(!world.events(&owner(), start(keyed("t4", "a", "e"))).is_empty());
}
