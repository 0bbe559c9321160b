//! Commands (§6.2): AIP-048 to AIP-050, AIP-062, and what devices are told of the agent (§5.4).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use switchboard_testkit::{BatchCommand, Step};

use crate::support::{Talk, batch, done, finish, own_task, session, short, stop, task, text};

fn nothing() -> Vec<String> {
    Vec::new()
}

#[test]
fn aip_048_commands_go_to_the_executor_alone_with_ids_of_their_own() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let other = talk.device("other");
    let first = talk.command(boss, dev, "s1", "two");
    assert_eq!(short(&first), "command s1 look,click");
    assert_eq!((text(&first, "status"), text(&first, "task_name")), ("continue".into(), "t1".into()));
    talk.obey(dev, &first);
    let second = talk.one(dev);
    assert_eq!(short(&second), "command s1 type");
    assert_ne!(first["response_id"], second["response_id"]);
    assert_eq!((talk.short(boss), talk.short(other)), (nothing(), nothing()));
}

#[test]
fn aip_048_every_command_has_a_call_id_and_a_type() {
    let mut talk = Talk::new();
    let kinds = [json!({ "tool_type": "data_collection" }), json!({ "tool_type": "action" }), json!(null)];
    let commands = kinds.map(|options| BatchCommand::new("x", json!({})).with_options(options)).to_vec();
    talk.plan("kinds", vec![Step::Batch { commands, timeout_ms: 1000 }, finish()]);
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "kinds");
    let kinds: Vec<_> = command["actions"].as_array().unwrap().iter().map(|a| text(a, "tool_type")).collect();
    assert_eq!(kinds, ["data_collection", "action", "action"]);
    for action in command["actions"].as_array().unwrap() {
        assert_eq!(text(action, "call_id").len(), 36, "§3: a UUID");
    }
}

#[test]
fn aip_049_one_message_of_a_session_is_out_at_a_time() {
    for seed in 0..20 {
        let mut talk = Talk::seeded(seed);
        let (dev, boss) = (talk.device("dev"), talk.boss("boss", "dev"));
        talk.plan("many", vec![batch(&["a"]), batch(&["b"]), batch(&["c"]), finish()]);
        talk.say(boss, &task("dev", "s1", "many"));
        for tool in ["a", "b", "c"] {
            talk.world.advance(1_000);
            let command = talk.one(dev);
            assert_eq!(short(&command), format!("command s1 {tool}"));
            talk.obey(dev, &command);
        }
        assert_eq!(talk.short(boss), ["ack s1", "end s1 completed"]);
    }
}

#[test]
fn aip_049_sessions_of_one_device_do_not_wait_for_each_other() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let first = talk.command(boss, dev, "s1", "one");
    let second = talk.command(boss, dev, "s2", "one");
    talk.say(dev, &own_task("s3", "one"));
    let third = talk.heard(dev);
    assert_eq!(third.iter().map(short).collect::<Vec<_>>(), ["ack s3", "command s3 look"]);
    for (command, session) in [(&third[1], "s3"), (&second, "s2"), (&first, "s1")] {
        talk.obey(dev, command);
        assert_eq!(talk.short(dev), [format!("end {session} completed")]);
    }
    assert_eq!(talk.short(boss), ["end s2 completed", "end s1 completed"]);
}

#[test]
fn aip_050_parameters_pass_unchanged_and_in_order() {
    let mut talk = Talk::new();
    let commands: Vec<BatchCommand> = (0..128)
        .map(|n| BatchCommand::new(&format!("tool{n}"), json!({ "n": n, "b": "x", "a": [n] })))
        .collect();
    talk.plan("full", vec![Step::Batch { commands, timeout_ms: 1000 }, finish()]);
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "full");
    let actions = command["actions"].as_array().unwrap();
    assert_eq!(actions.len(), 128, "§13: as many as one message may hold");
    for (n, action) in actions.iter().enumerate() {
        assert_eq!(text(action, "tool_name"), format!("tool{n}"));
        assert_eq!(action["parameters"].to_string(), format!(r#"{{"n":{n},"b":"x","a":[{n}]}}"#));
    }
    talk.obey(dev, &command);
    let end = talk.one(boss);
    let told = end["result"]["turns"][0].as_array().unwrap();
    assert_eq!(told.len(), 128);
    for (n, result) in told.iter().enumerate() {
        assert_eq!(result["result"]["tool"], format!("tool{n}"));
    }
}

#[test]
fn aip_050_a_command_may_be_without_parameters_or_have_no_object() {
    let mut talk = Talk::new();
    let commands = vec![BatchCommand::new("bare", Value::Null), BatchCommand::new("list", json!([1, 2]))];
    talk.plan("bare", vec![Step::Batch { commands, timeout_ms: 1000 }, finish()]);
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "bare");
    for action in command["actions"].as_array().unwrap() {
        assert!(action["parameters"].is_object() || action["parameters"].is_null(), "§3.4: {action}");
    }
}

#[test]
fn commands_name_the_agent_whose_tools_a_device_looks_up() {
    for (platform, agent) in [
        ("windows", "HostAgent"),
        ("linux", "LinuxAgent"),
        ("darwin", "LinuxAgent"),
        ("android", "MobileAgent"),
        ("ios", "MobileAgent"),
        ("toaster", "HostAgent"),
    ] {
        let mut talk = Talk::new();
        let dev = talk.device_of("ann", "dev", json!({ "platform": platform }));
        let boss = talk.boss("boss", "dev");
        let command = talk.command(boss, dev, "s1", "one");
        assert_eq!(command["agent_name"], agent, "{platform}");
        assert!(command["process_name"].is_null() && command["root_name"].is_null());
    }
}

#[test]
fn commands_carry_the_context_that_the_agent_gives() {
    let mut talk = Talk::new();
    let context = json!({ "agent_name": "AppAgent", "process_name": "notepad.exe", "root_name": "notepad" });
    let renamed = json!({ "tool_name": "click.input" });
    let commands = vec![
        BatchCommand::new("look", json!({})).with_options(context),
        BatchCommand::new("click", json!({})).with_options(renamed),
    ];
    talk.plan("app", vec![Step::Batch { commands, timeout_ms: 1000 }, finish()]);
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "app");
    assert_eq!(text(&command, "agent_name"), "AppAgent");
    assert_eq!(
        (text(&command, "process_name"), text(&command, "root_name")),
        ("notepad.exe".into(), "notepad".into())
    );
    assert_eq!(short(&command), "command s1 look,click.input");
}

#[test]
fn aip_062_tasks_of_fifty_devices_run_side_by_side() {
    for seed in [None, Some(1), Some(2)] {
        let mut talk = seed.map_or_else(Talk::new, Talk::seeded);
        let mut pairs = Vec::new();
        for n in 0..50 {
            let dev = talk.device(&format!("dev{n}"));
            pairs.push((dev, talk.boss(&format!("boss{n}"), &format!("dev{n}"))));
        }
        for (n, (_, boss)) in pairs.iter().enumerate() {
            talk.enqueue(*boss, &task(&format!("dev{n}"), &format!("s{n}"), "two"));
        }
        talk.world.settle();
        let mut commands = BTreeMap::new();
        for (n, (dev, boss)) in pairs.iter().enumerate() {
            assert_eq!(talk.short(*boss), [format!("ack s{n}")]);
            let command = talk.one(*dev);
            assert_eq!(short(&command), format!("command s{n} look,click"));
            commands.insert(n, command);
        }
        // The last first, so that nobody waits for anybody.
        for (n, command) in commands.iter().rev() {
            talk.enqueue(pairs[*n].0, &done(command));
        }
        talk.world.settle();
        for (n, (dev, boss)) in pairs.iter().enumerate().rev() {
            let command = talk.one(*dev);
            assert_eq!(short(&command), format!("command s{n} type"));
            talk.obey(*dev, &command);
            assert_eq!(talk.short(*boss), [format!("end s{n} completed")]);
            assert_eq!(talk.short(*dev), [format!("end s{n} completed")]);
        }
    }
}

#[test]
fn sixty_eight_tasks_of_one_device_run_side_by_side() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    for n in 0..68 {
        talk.say(boss, &task("dev", &format!("s{n}"), "one"));
    }
    talk.say(boss, &task("dev", "s68", "one"));
    let told = talk.short(boss);
    assert_eq!(told.len(), 70, "§11: four and sixty-four, then no more");
    assert_eq!(told[68..], ["error device busy", "end s68 failed device busy"]);
    let commands = talk.heard(dev);
    assert_eq!(commands.len(), 68);
    for command in commands.iter().rev() {
        talk.obey(dev, command);
    }
    assert_eq!((talk.short(boss).len(), talk.short(dev).len()), (68, 68));
}

#[test]
fn nothing_is_left_behind_when_tasks_end() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let clean = format!("{:?}", talk.aip);
    for request in ["one", "raise", "panic", "hello", "hang"] {
        talk.say(boss, &task("dev", "s1", request));
        for command in talk.heard(dev).iter().filter(|message| message["type"] == "command") {
            talk.obey(dev, command);
        }
        talk.say(boss, &stop("constellation", "s1", "failed", None));
        assert!(talk.world.followed(dev).is_empty(), "{request}: A33");
        assert!(talk.world.followed(boss).is_empty(), "{request}: A33");
    }
    let shown = format!("{:?}", talk.aip);
    let records = |text: &str| text.split("results").next().unwrap().to_owned();
    assert_eq!(records(&shown), records(&clean), "no session id is taken, no device is busy");
}

/// The lines of a command that say who asks for it.
fn asked(command: &Value) -> Vec<String> {
    serde_json::from_value(command["messages"].clone()).unwrap_or_default()
}

#[test]
fn aip_100_a_device_that_wants_to_know_is_told_who_asks_and_for_which_task() {
    let mut talk = Talk::new();
    let dev = talk.device_of("ann", "dev", json!({ "names_askers": true }));
    let boss = talk.boss_of("cat", "cat@x", Some("dev"));
    let command = talk.command(boss, dev, "s1", "one");
    assert_eq!(asked(&command), ["asked by cat, over aip", "task t1: one"]);
    talk.obey(dev, &command);
    talk.short(dev);
    // Over HTTP.
    let sent = talk.dispatch("sender", &json!({ "client_id": "dev", "request": "one", "task_name": "sent" }));
    assert_eq!(sent.0, 200, "{sent:?}");
    talk.short(dev);
    let under = sent.1["session_id"].as_str().unwrap();
    talk.say(dev, &with_name(own_task(under, "one"), "sent"));
    let told = talk.heard(dev);
    let command = told.last().unwrap();
    assert_eq!(asked(command), ["asked by sender, over HTTP", "task sent: one"]);
    talk.obey(dev, command);
    // A turn of another protocol that is not for the device, and uses its tools all the same.
    talk.short(dev);
    let elsewhere = session("elsewhere");
    talk.use_tool_elsewhere(&elsewhere, "dev");
    let command = talk.one(dev);
    assert_eq!(asked(&command), ["asked by ann, over asp"]);
    // Nobody else is told anything.
    let other = talk.device("other");
    let second = talk.boss("second", "other");
    talk.say(second, &task("other", "s3", "one"));
    assert!(talk.one(other)["messages"].is_null());
}

fn with_name(mut task: Value, name: &str) -> Value {
    task["task_name"] = name.into();
    task
}
