//! Who may know of a session, and who may do what in it.

use super::testing::*;
use crate::connection::Reply;
use crate::id::PrincipalId;
use crate::limits::SessionLimits;
use crate::model::{Actor, Event, Executor, Op};
use crate::position::Position;
use crate::principal::Role;
use crate::reject::Reject;
use crate::session::TurnStatus;

#[test]
fn opening_a_session_makes_the_asker_its_owner() {
    let mut world = World::unborn();
    assert_eq!(world.session.owner(), None);
    assert_eq!(world.session.summary(), None);
    let decision = world.ask(&owner(), open()).unwrap();
    assert_eq!(names(&decision.events), ["session_opened"]);
    assert_eq!(decision.reply, Reply::Applied { head: Position { epoch: 7, seq: 1 } });
    assert_eq!(world.session.owner(), Some(&PrincipalId::from("owner")));
    assert_eq!(world.session.agent(), Some(&"echo".into()));
    assert_eq!(world.session.name(), Some("notes"));
    assert_eq!(world.session.head(), Position { epoch: 7, seq: 1 });
    assert_eq!((world.session.opened_at(), world.session.updated_at()), (world.now, world.now));
}

#[test]
fn opening_again_changes_nothing() {
    let mut world = World::opened();
    let head = world.session.head();
    for actor in [owner(), contributor(), observer()] {
        let decision = world.ask(&actor, open()).unwrap();
        assert_eq!(decision.events, []);
        assert_eq!(decision.reply, Reply::Applied { head });
    }
}

#[test]
fn only_a_client_brings_a_session_to_life() {
    for actor in [worker(), Actor::server()] {
        assert_eq!(World::unborn().refusal(&actor, open()), Reject::NotFound);
    }
}

#[test]
fn a_stranger_cannot_tell_a_foreign_session_from_one_that_does_not_exist() {
    let mut world = World::opened();
    world.attach("a", 1000);
    world.run("t1");
    for op in every_op() {
        let foreign = world.refusal(&stranger(), op.clone());
        assert_eq!(foreign, Reject::NotFound, "{op:?}");
        if !matches!(op, Op::Open { .. }) {
            assert_eq!(World::unborn().refusal(&stranger(), op), foreign);
        }
    }
}

#[test]
fn nothing_but_opening_reaches_a_session_that_does_not_exist() {
    for actor in [owner(), worker(), Actor::server()] {
        for op in every_op() {
            if !matches!(op, Op::Open { .. }) {
                assert_eq!(World::unborn().refusal(&actor, op), Reject::NotFound);
            }
        }
    }
}

#[test]
fn an_observer_may_not_submit_interrupt_fail_or_answer() {
    let mut world = World::opened();
    world.run("t1");
    world.events(&worker(), request("t1", question("c")));
    world.events(&worker(), request("t1", asked_of(Executor::Principal("observer".into()), question("own"))));
    let ops = every_op().into_iter().filter(|op| {
        matches!(
            op,
            Op::StartTurn(_)
                | Op::Interrupt { .. }
                | Op::Conclude { .. }
                | Op::Progress { .. }
                | Op::Answer { .. }
                | Op::ChangeTools(_)
                | Op::Admit { .. }
        )
    });
    let ops: Vec<Op> = ops.chain([answer("t1", "own"), progress("t1", "own")]).collect();
    assert_eq!(ops.len(), 9);
    for op in ops {
        assert_eq!(world.refusal(&observer(), op.clone()), Reject::Forbidden, "{op:?}");
    }
}

#[test]
fn a_contributor_may_submit_interrupt_and_answer() {
    let mut world = World::opened();
    world.events(&contributor(), start(chat("t1")));
    world.claim("t1");
    world.events(&worker(), request("t1", question("c")));
    world.events(&contributor(), progress("t1", "c"));
    world.events(&contributor(), answer("t1", "c"));
    world.events(&contributor(), interrupt("t1"));
    assert_eq!(world.status("t1"), Some(TurnStatus::Stopping));
}

#[test]
fn a_device_may_answer_but_not_submit() {
    let mut world = World::opened();
    world.run("t1");
    world.events(&worker(), request("t1", question("c")));
    assert_eq!(world.refusal(&device(), start(chat("t2"))), Reject::Forbidden);
    assert_eq!(world.refusal(&device(), interrupt("t1")), Reject::Forbidden);
    assert_eq!(names(&world.events(&device(), answer("t1", "c"))), ["call_ended"]);
}

#[test]
fn an_orchestrator_may_submit_but_not_answer() {
    let mut world = World::opened();
    world.admit("orchestrator", Role::Orchestrator);
    world.events(&client("orchestrator"), start(chat("t1")));
    world.claim("t1");
    world.events(&worker(), request("t1", question("c")));
    assert_eq!(world.refusal(&client("orchestrator"), answer("t1", "c")), Reject::Forbidden);
    world.events(&client("orchestrator"), interrupt("t1"));
}

#[test]
fn no_client_may_do_what_workers_and_the_server_do() {
    let mut world = World::opened();
    world.run("t1");
    for op in [
        Op::Claim { turn: "t1".into(), relayed: false },
        emit("t1", 1, "x"),
        request("t1", question("c")),
        finish("t1", 1),
    ] {
        for actor in [owner(), contributor(), observer(), Actor::server()] {
            assert_eq!(world.refusal(&actor, op.clone()), Reject::Forbidden, "{actor:?} {op:?}");
        }
    }
    for op in [lose("t1"), Op::Recover, Op::Wake] {
        for actor in [owner(), contributor(), observer(), worker()] {
            assert_eq!(world.refusal(&actor, op.clone()), Reject::Forbidden, "{actor:?} {op:?}");
        }
    }
}

#[test]
fn a_worker_may_neither_submit_nor_interrupt_nor_admit() {
    let mut world = World::opened();
    world.run("t1");
    let admit = Op::Admit { principal: "friend".into(), role: Some(Role::Observer) };
    for op in [start(chat("t2")), interrupt("t1"), admit] {
        assert_eq!(world.refusal(&worker(), op), Reject::Forbidden);
    }
}

#[test]
fn an_admitted_participant_has_its_role_until_it_is_removed() {
    let mut world = World::with_limits(limits());
    let friend = PrincipalId::from("friend");
    let admit = |role| Op::Admit { principal: "friend".into(), role };
    assert_eq!(world.refusal(&client("friend"), start(chat("t1"))), Reject::NotFound);
    assert_eq!(
        world.events(&owner(), admit(Some(Role::Observer))),
        [Event::ParticipantJoined { principal: friend.clone(), role: Role::Observer }]
    );
    assert_eq!(world.refusal(&client("friend"), start(chat("t1"))), Reject::Forbidden);
    world.events(&owner(), admit(Some(Role::Contributor)));
    assert_eq!(world.session.role_of(&friend), Some(Role::Contributor));
    world.events(&client("friend"), start(chat("t1")));
    assert_eq!(world.events(&owner(), admit(None)), [Event::ParticipantLeft { principal: friend.clone() }]);
    assert_eq!(world.session.role_of(&friend), None);
    assert_eq!(world.refusal(&client("friend"), interrupt("t1")), Reject::NotFound);
}

#[test]
fn admitting_what_is_already_so_changes_nothing() {
    let mut world = World::opened();
    let same = Op::Admit { principal: "observer".into(), role: Some(Role::Observer) };
    assert_eq!(world.events(&owner(), same), []);
    assert_eq!(world.events(&owner(), Op::Admit { principal: "nobody".into(), role: None }), []);
}

#[test]
fn only_the_owner_admits() {
    let mut world = World::opened();
    let admit = Op::Admit { principal: "friend".into(), role: Some(Role::Observer) };
    for actor in [contributor(), observer(), device()] {
        assert_eq!(world.refusal(&actor, admit.clone()), Reject::Forbidden);
    }
}

#[test]
fn ownership_is_neither_given_nor_taken() {
    let mut world = World::opened();
    for (principal, role) in
        [("owner", None), ("owner", Some(Role::Observer)), ("contributor", Some(Role::Owner))]
    {
        let refusal = world.refusal(&owner(), Op::Admit { principal: principal.into(), role });
        assert!(matches!(refusal, Reject::Invalid(_)), "{refusal:?}");
    }
}

#[test]
fn participants_are_limited_but_known_ones_may_change_roles() {
    let mut world = World::with_limits(SessionLimits { participants: 1, ..limits() });
    world.admit("first", Role::Observer);
    let second = Op::Admit { principal: "second".into(), role: Some(Role::Observer) };
    assert_eq!(world.refusal(&owner(), second), Reject::Limit { what: "participants" });
    world.admit("first", Role::Contributor);
}

#[test]
fn a_removed_participant_takes_attachments_bound_turns_and_tools_along() {
    let mut world = World::opened();
    world.events(&contributor(), attach("a", 1000));
    world.events(&contributor(), start(bound("hangs", "a")));
    world.events(&contributor(), start(parallel("stays")));
    let own = Executor::Principal("contributor".into());
    world.events(
        &contributor(),
        add_tools(vec![tool("one", own), tool("two", Executor::Attachment("a".into()))]),
    );
    world.register("other");
    let events = world.events(&owner(), Op::Admit { principal: "contributor".into(), role: None });
    assert_eq!(
        names(&events),
        [
            "turn_interrupted",
            "turn_ended",
            "tools_changed",
            "attachment_closed",
            "tools_changed",
            "participant_left"
        ]
    );
    assert_eq!(world.status("hangs"), None);
    assert_eq!(world.status("stays"), Some(TurnStatus::Ready));
    assert_eq!(world.session.tools().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["other"]);
    assert_eq!(world.session.view().tools_revision, 4);
    assert_eq!(world.session.attachment(&"a".into()), None);
}
