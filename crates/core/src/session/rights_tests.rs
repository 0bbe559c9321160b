//! What a credential allows in a session of its own principal, whatever the connection speaks.

use super::testing::*;
use crate::model::{
    Actor, CallEnd, CallKind, CallRequest, Executor, MCP_SERVER, NewTurn, Op, Tool, TurnRequest,
};
use crate::principal::Role;
use crate::reject::Reject;
use crate::rights::Right;
use crate::scopes::Scopes;
use serde_json::json;

/// The owner of the session, with a credential that allows this and no more.
fn narrow(scopes: &str) -> Actor {
    owner().allowed(Scopes::parse(scopes))
}

const CREDENTIALS: [&str; 16] = [
    "connect",
    "read",
    "invoke",
    "tools",
    "approve",
    "manage",
    "dispatch",
    "admin",
    "connect read",
    "connect invoke",
    "agent:echo",
    "agent:*",
    "device:lab-1",
    "constellation:ctl",
    "target:*",
    "openid email",
];

#[test]
fn every_op_is_allowed_to_exactly_the_credentials_of_the_table() {
    for scopes in CREDENTIALS {
        for op in every_op() {
            let mut world = World::opened();
            world.run("t1");
            let actor = narrow(scopes);
            let allowed = actor.scopes.permit(Right::of(&op), None);
            let decided = world.session.decide(&actor, &op, world.now);
            if !allowed {
                let refused = matches!(decided, Err(Reject::Forbidden | Reject::NotFound));
                assert!(refused, "{scopes}: {op:?} is not refused: {decided:?}");
            } else if actor.takes_part() {
                assert_eq!(
                    decided.err(),
                    world.session.decide(&owner(), &op, world.now).err(),
                    "{scopes}: {op:?} is decided as for any owner"
                );
            }
        }
    }
}

#[test]
fn every_right_is_needed_by_something() {
    let ops: Vec<Right> = every_op().iter().map(Right::of).collect();
    let elsewhere = [
        Right::Annotate,
        Right::Connect,
        Right::Follow,
        Right::Look,
        Right::Read,
        Right::Inspect,
        Right::Task,
        Right::RunTool,
        Right::AnswerQuestion,
        Right::Approve,
        Right::Note,
        Right::Dispatch,
        Right::Dispatched,
        Right::Discover,
        Right::Speak,
        Right::Administer,
    ];
    for right in Right::ALL {
        assert!(ops.contains(&right) || elsewhere.contains(&right), "{right:?}");
    }
}

#[test]
fn the_agent_that_answers_is_the_one_that_is_checked() {
    let mut world = World::opened();
    let other = narrow("agent:other");
    assert_eq!(
        world.refusal(&other, start(chat("t1"))),
        Reject::UnknownAgent("echo".into()),
        "the session's own"
    );
    let named = NewTurn { agent: Some("echo".into()), ..chat("t1") };
    assert_eq!(world.refusal(&other, start(named)), Reject::UnknownAgent("echo".into()));
    for allowed in ["agent:echo", "agent:ec*", "agent:*", "connect invoke"] {
        let mut world = World::opened();
        world.events(&narrow(allowed), start(chat("t1")));
    }
}

#[test]
fn a_tool_is_run_directly_only_with_the_scope_for_it() {
    let run = |turn: &str| {
        let request = TurnRequest::Tool { name: "wipe".into(), args: json!({}) };
        start(NewTurn { request, ..chat(turn) })
    };
    let mut world = World::opened();
    world.events(&worker(), add_tools(vec![tool("wipe", Executor::Agent)]));
    for scopes in ["connect invoke", "agent:echo", "device:lone-1", "read"] {
        assert!(matches!(world.refusal(&narrow(scopes), run("t1")), Reject::Forbidden), "{scopes}");
    }
    world.events(&narrow("connect tools"), run("t1"));
    let remote = Tool { options: json!({ MCP_SERVER: "files" }), ..tool("wipe", Executor::Agent) };
    world.events(&worker(), add_tools(vec![remote]));
    for scopes in ["connect tools", "connect tools mcp:git*", "connect invoke mcp:files"] {
        assert_eq!(
            world.refusal(&narrow(scopes), run("t2")),
            Reject::Forbidden,
            "{scopes}: a server of tools"
        );
    }
}

#[test]
fn only_the_scope_for_it_approves() {
    let approval = CallRequest {
        kind: CallKind::Question { text: "may it?".into(), schema: None, approves: Some("wipe".into()) },
        ..question("may")
    };
    let mut world = World::opened();
    world.run("t1");
    world.events(&worker(), request("t1", approval));
    world.events(&worker(), request("t1", question("plain")));
    for scopes in ["connect", "connect invoke", "connect tools", "connect manage read", "device:lone-1"] {
        let refused = world.refusal(&narrow(scopes), answer("t1", "may"));
        assert!(matches!(refused, Reject::Forbidden | Reject::NotFound), "{scopes}: {refused:?}");
    }
    assert_eq!(world.refusal(&narrow("approve"), answer("t1", "plain")), Reject::Forbidden);
    world.events(&narrow("approve"), answer("t1", "may"));
    world.events(&narrow("invoke"), answer("t1", "plain"));
}

#[test]
fn aip_096_a_device_is_not_commanded_through_sessions_of_other_protocols() {
    let mut world = World::opened();
    let laptop = owner().enrolled(Some("laptop".into()));
    world.events(&laptop, add_tools(vec![tool("run", Executor::Device("laptop".into()))]));
    for scopes in ["connect invoke device:lone-1", "connect invoke device:pi-*", "connect invoke target:pi-*"]
    {
        assert_eq!(world.refusal(&narrow(scopes), start(chat("t1"))), Reject::Forbidden, "{scopes}");
    }
    for (turn, scopes) in [("t1", "connect invoke"), ("t2", "connect invoke target:lap*")] {
        world.events(&narrow(scopes), start(parallel(turn)));
    }
}

#[test]
fn aip_096_a_device_key_is_that_device_and_nothing_more() {
    let mut world = World::opened();
    world.run("t1");
    let device = narrow("device:lone-1").enrolled(Some("lone-1".into()));
    assert_eq!(world.session.role_of_actor(&device), None, "it takes no part in what others do");
    for op in [start(chat("t2")), interrupt("t1"), Op::Rename { name: "x".into() }, answer("t1", "c")] {
        assert!(matches!(world.refusal(&device, op.clone()), Reject::Forbidden | Reject::NotFound), "{op:?}");
    }
    // Its own profile, in a session that is for nothing else, its own tasks, its own tools.
    let mut home = World::opened();
    home.events(&device, Op::Join(Box::new(profile("lone-1"))));
    assert_eq!(home.session.role_of_actor(&device), Some(Role::Device));
    home.events(&device, Op::Report { facts: json!({ "cpu": 4 }) });
    let own = NewTurn { device: Some("lone-1".into()), ..parallel("t3") };
    world.events(&device, start(own));
    world.claim("t3");
    world.events(&worker(), request("t3", asked_of(Executor::Device("lone-1".into()), question("q"))));
    world.events(&worker(), request("t3", asked_of(Executor::Device("lone-1".into()), tool_use("c", "run"))));
    world.events(&device, answer_with("t3", "c", CallEnd::done(json!("ok"))));
}
