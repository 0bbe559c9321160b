//! Tools: who may bring and take them, and how the revision grows.

use std::sync::Arc;

use super::Session;
use super::testing::*;
use crate::id::ToolName;
use crate::limits::SessionLimits;
use crate::model::{CallRequest, Event, Executor, Op, Tool, ToolChange};
use crate::reject::Reject;

fn own(name: &str) -> Tool {
    tool(name, Executor::Principal("owner".into()))
}

fn known(world: &World) -> Vec<&str> {
    world.session.tools().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn each_change_of_the_tools_raises_the_revision_by_one() {
    let mut world = World::opened();
    let changes = [
        add_tools(vec![own("a"), own("b")]),
        add_tools(vec![Tool { description: "better".into(), ..own("a") }]),
        remove_tools(&["a"]),
        Op::ChangeTools(ToolChange { add: vec![own("c")], remove: vec!["b".into()], turn: None }),
    ];
    for (change, expected) in changes.into_iter().zip(1..) {
        let events = world.events(&owner(), change);
        assert_eq!(names(&events), ["tools_changed"]);
        assert!(matches!(&events[0], Event::ToolsChanged { revision, .. } if *revision == expected));
        assert_eq!(world.session.view().tools_revision, expected);
    }
    assert_eq!(known(&world), ["c"]);
}

#[test]
fn a_change_that_changes_nothing_is_none() {
    let mut world = World::opened();
    assert_eq!(world.events(&owner(), add_tools(Vec::new())), []);
    assert_eq!(world.events(&owner(), remove_tools(&["unknown"])), []);
    assert_eq!(world.session.view().tools_revision, 0);
}

#[test]
fn a_name_belongs_to_the_executor_that_brought_it() {
    let mut world = World::opened();
    world.register("a");
    let clash = tool("a", Executor::Principal("contributor".into()));
    let refusal = world.refusal(&contributor(), add_tools(vec![clash]));
    assert!(matches!(refusal, Reject::Invalid(_)), "{refusal:?}");
    assert_eq!(world.events(&contributor(), remove_tools(&["a"])), []);
    assert_eq!(known(&world), ["a"]);
}

#[test]
fn a_client_brings_tools_in_its_own_name_only() {
    let mut world = World::opened();
    world.attach("mine", 1000);
    for executor in [
        Executor::Agent,
        Executor::Anyone,
        Executor::Principal("owner".into()),
        Executor::Attachment("mine".into()),
    ] {
        let change = add_tools(vec![tool("a", executor)]);
        assert_eq!(world.refusal(&contributor(), change), Reject::Forbidden);
    }
    world.events(&owner(), add_tools(vec![tool("a", Executor::Attachment("mine".into()))]));
}

#[test]
fn a_worker_brings_tools_of_the_agent() {
    let mut world = World::opened();
    world.events(&worker(), add_tools(vec![tool("a", Executor::Agent)]));
    assert_eq!(known(&world), ["a"]);
    assert_eq!(world.events(&owner(), remove_tools(&["a"])), []);
}

#[test]
fn an_executor_may_have_some_time_on_top() {
    let mut world = World::opened();
    let far = Tool { grace_ms: 2_000, ..tool("far", Executor::Principal("owner".into())) };
    world.events(&owner(), add_tools(vec![far]));
    world.run("t1");
    let call = CallRequest { deadline: world.ahead(500), ..tool_use("c1", "far") };
    let events = world.events(&worker(), Op::Request { turn: "t1".into(), fence: 1, calls: vec![call] });
    assert!(matches!(&events[0], Event::CallRequested { call, .. } if call.deadline == world.ahead(2_500)));
}

#[test]
fn tools_are_limited_by_how_many_there_would_be() {
    let mut world = World::with_limits(SessionLimits { tools: 2, ..limits() });
    let limit = Reject::Limit { what: "tools" };
    assert_eq!(world.refusal(&owner(), add_tools(vec![own("a"), own("b"), own("c")])), limit);
    world.events(&owner(), add_tools(vec![own("a"), own("b")]));
    assert_eq!(world.refusal(&owner(), add_tools(vec![own("c")])), limit);
    world.events(&owner(), add_tools(vec![own("a")]));
    let change = |add: &[&str], remove: &[&str]| {
        let add = add.iter().map(|name| own(name)).collect();
        let remove = remove.iter().map(|name| ToolName::from(*name)).collect();
        Op::ChangeTools(ToolChange { add, remove, turn: None })
    };
    assert_eq!(world.refusal(&owner(), change(&["c", "d"], &["a", "a"])), limit);
    assert_eq!(world.refusal(&owner(), change(&["a", "c"], &["a"])), limit);
    world.events(&owner(), change(&["c"], &["a", "a"]));
    assert_eq!(known(&world), ["b", "c"]);
}

#[test]
fn tools_found_by_a_turn_name_it_while_it_runs() {
    let mut world = World::opened();
    world.run("t1");
    let found = |turn: &str| {
        Op::ChangeTools(ToolChange {
            add: vec![tool("a", Executor::Agent)],
            remove: Vec::new(),
            turn: Some(turn.into()),
        })
    };
    let events = world.events(&worker(), found("t1"));
    assert_eq!(events[0].turn(), Some(&"t1".into()));
    assert_eq!(world.refusal(&worker(), found("t2")), Reject::UnknownTurn("t2".into()));
    world.interrupt("t1");
    assert_eq!(world.refusal(&worker(), found("t1")), Reject::TurnOver("t1".into()));
    world.finish("t1", 1);
    assert_eq!(world.refusal(&worker(), found("t1")), Reject::TurnOver("t1".into()));
}

#[test]
fn the_tools_of_an_attachment_leave_with_it() {
    let mut world = World::opened();
    world.attach("a", 1000);
    world.attach("b", 1000);
    let of = |name, attachment: &str| tool(name, Executor::Attachment(attachment.into()));
    world.events(&owner(), add_tools(vec![of("one", "a"), of("two", "b"), of("three", "a")]));
    world.register("four");
    let events = world.events(&owner(), close("a", 1));
    assert_eq!(names(&events), ["tools_changed", "attachment_closed"]);
    let Event::ToolsChanged { revision, removed, .. } = &events[0] else { panic!("{events:?}") };
    assert_eq!((*revision, removed.as_slice()), (3, ["one".into(), "three".into()].as_slice()));
    assert_eq!(known(&world), ["four", "two"]);
}

#[test]
fn attachments_that_expire_together_withdraw_their_tools_one_revision_each() {
    let mut world = World::opened();
    for attachment in ["a", "b"] {
        world.attach(attachment, 1000);
        let executor = Executor::Attachment(attachment.into());
        world.events(&owner(), add_tools(vec![tool(attachment, executor)]));
        world.events(&owner(), detach(attachment, 1));
    }
    world.pass(1000);
    let mut revisions = Vec::new();
    for event in world.wake() {
        if let Event::ToolsChanged { revision, .. } = event {
            revisions.push(revision);
        }
    }
    assert_eq!(revisions, [3, 4]);
}

#[test]
fn a_definition_that_is_offered_anyway_is_kept_once() {
    let mut world = World::opened();
    world.events(&owner(), add_tools(vec![own("a"), own("b")]));
    let snapshot = serde_json::to_value(&world.session).unwrap();
    let mut read: Session = serde_json::from_value(snapshot).unwrap();
    let offered = [own("a"), Tool { description: "another".into(), ..own("b") }, own("c")];
    read.share_tools(&offered);
    let same = |(known, offered): (&Tool, &Tool)| Arc::ptr_eq(&known.input_schema, &offered.input_schema);
    assert_eq!(read.tools().zip(&offered).map(same).collect::<Vec<_>>(), [true, false]);
    assert!(read.tools().eq(world.session.tools()), "what they are is not changed");
}
