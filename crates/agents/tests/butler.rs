//! The butler, in a shop.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};

use serde_json::{Value, json};
use switchboard_agents::{Agent, Brief, Butler, ButlerConfig, Recovery};
use switchboard_core::model::{
    Author, CallEnd, CallError, CallKind, Executor, FailureKind, Part, Setting, Tool, ToolAnnotations,
};
use switchboard_core::{
    AgentId, AttachmentId, MessageRow, MessageStatus, SessionId, Timestamp, ToolName, TurnId,
};

use support::{Port, brief, chat, replay_brief, run};

fn tool(name: &str, description: &str, properties: Value, required: &[&str]) -> Tool {
    Tool {
        name: ToolName::from(name),
        description: description.into(),
        input_schema: json!({ "type": "object", "properties": properties, "required": required }).into(),
        output_schema: None,
        annotations: ToolAnnotations::default(),
        version: None,
        executor: Executor::Attachment(AttachmentId::from("att_1")),
        grace_ms: 0,
        options: Value::Null,
    }
}

fn button(name: &str, description: &str) -> Tool {
    tool(name, description, json!({}), &[])
}

fn input(name: &str, description: &str, value: Value) -> Tool {
    tool(name, description, json!({ "value": value }), &["value"])
}

/// What a shop offers on a page where everything is visible.
fn shop() -> Vec<Tool> {
    let routes =
        json!({ "target": { "type": "string", "enum": ["home", "orders", "settings", "help", "cart"] } });
    vec![
        tool("navigate", "Go to another page of the shop.", routes, &["target"]),
        tool(
            "cart.add.blue-mug",
            "Add the blue mug to the cart.",
            json!({ "quantity": { "type": "integer", "minimum": 1, "maximum": 20 } }),
            &[],
        ),
        button("cart.add.red-mug", "Add the red mug to the cart."),
        button("cart.add.teapot", "Add the teapot to the cart."),
        button("cart.clear", "Remove everything from the cart."),
        input("search", "Search the products.", json!({ "type": "string", "maxLength": 200 })),
        input("settings.name", "Your name, as it is written on parcels.", json!({ "type": "string" })),
        input(
            "settings.age",
            "Your age in years.",
            json!({ "type": "number", "minimum": 0, "maximum": 150 }),
        ),
        input("settings.newsletter", "Whether you get the newsletter.", json!({ "type": "boolean" })),
        input("settings.dark_mode", "Switch dark mode on or off.", json!({ "type": "boolean" })),
        input("settings.password", "Your password.", json!({ "type": "string" })),
        input(
            "settings.delivery",
            "How parcels are delivered.",
            json!({ "type": "string", "enum": ["standard", "express", "pick-up"] }),
        ),
        button("order.place", "Place the order."),
        button("order:cancel", "Cancel the last order."),
        tool(
            "order.note",
            "Leave a note for the courier.",
            json!({ "text": { "type": "string" } }),
            &["text"],
        ),
        button("log_out", "Log out of the shop."),
        tool("get_available_routes", "The pages there are.", json!({}), &[]),
    ]
}

const SCENE: &str = "Orders page of the Corner Shop. You have two orders.\n\
    - Order 17: a blue mug, delivered on Monday\n- Order 18: a teapot, on its way\n\
    Your cart holds one red mug for 12.50 euros. Delivery is free above 30 euros.";

/// What is done, and what is said, when somebody in the shop says this.
async fn heard(text: &str) -> (Vec<(String, Value)>, String) {
    in_shop(text, Vec::new(), |_| Some(CallEnd::done(json!({ "status": "success" })))).await
}

async fn in_shop(
    text: &str,
    history: Vec<MessageRow>,
    answers: impl Fn(&str) -> Option<CallEnd> + Send + Sync + 'static,
) -> (Vec<(String, Value)>, String) {
    let port = Port::new(move |call| match &call.kind {
        CallKind::Tool { name, .. } => answers(name.as_str()),
        CallKind::Question { .. } => panic!("nobody is to be asked"),
    });
    *port.tools.lock().unwrap() = shop();
    *port.history.lock().unwrap() = history;
    let setting = Setting { instructions: None, scene: Some(SCENE.into()) };
    let brief = Brief { setting: Some(Box::new(setting)), ..brief(chat(text), 1) };
    replay_brief(&Butler::default(), &port, brief, Vec::new()).await.unwrap();
    (calls(&port), port.text())
}

fn calls(port: &Port) -> Vec<(String, Value)> {
    let calls = port.calls().into_iter().map(|call| match call.kind {
        CallKind::Tool { name, args } => (name.to_string(), Value::clone(&args)),
        CallKind::Question { text, .. } => panic!("{text}"),
    });
    calls.collect()
}

fn to(page: &str) -> (&'static str, Value) {
    ("navigate", json!({ "target": page }))
}

fn value(name: &'static str, value: Value) -> (&'static str, Value) {
    (name, json!({ "value": value }))
}

fn press(name: &'static str) -> (&'static str, Value) {
    (name, json!({}))
}

#[tokio::test]
async fn short_requests_are_understood() {
    let requests = [
        ("open orders", to("orders")),
        ("Open my orders.", to("orders")),
        ("orders", to("orders")),
        ("Go to the settings page, please.", to("settings")),
        ("please take me home", to("home")),
        ("could you show me the help page?", to("help")),
        ("can you navigate to the cart", to("cart")),
        ("show my basket", to("cart")),
        ("I would like to see my orders", to("orders")),
        ("can I see the settings?", to("settings")),
        ("open preferences", to("settings")),
        ("take me to the start page", to("home")),
        ("hey, um, open the, uh, settings", to("settings")),
        ("add the blue mug to my cart", press("cart.add.blue-mug")),
        ("put the blue mug in the basket", press("cart.add.blue-mug")),
        ("add two blue mugs to the cart", ("cart.add.blue-mug", json!({ "quantity": 2 }))),
        ("I want 12 blue mugs, add them", ("cart.add.blue-mug", json!({ "quantity": 12 }))),
        ("add the red cup", press("cart.add.red-mug")),
        ("press add teapot", press("cart.add.teapot")),
        ("put a teapot into my bag", press("cart.add.teapot")),
        ("empty my cart", press("cart.clear")),
        ("remove everything from the cart", press("cart.clear")),
        ("clear the cart", press("cart.clear")),
        ("search for red running shoes", value("search", json!("red running shoes"))),
        ("find teapots", value("search", json!("teapots"))),
        ("search for \"tea & sugar\"", value("search", json!("tea & sugar"))),
        ("type green tea into the search field", value("search", json!("green tea"))),
        ("please search for mugs please", value("search", json!("mugs"))),
        ("set my name to Ada Lovelace", value("settings.name", json!("Ada Lovelace"))),
        ("change the name to Anna-Maria O'Neill", value("settings.name", json!("Anna-Maria O'Neill"))),
        ("enter Grace as my name", value("settings.name", json!("Grace"))),
        ("my name is Zoë", value("settings.name", json!("Zoë"))),
        ("set my age to 42", value("settings.age", json!(42))),
        ("change age to thirty six", value("settings.age", json!(36))),
        ("set my age to thirty seven point five", value("settings.age", json!(37.5))),
        ("turn on dark mode", value("settings.dark_mode", json!(true))),
        ("turn dark mode off", value("settings.dark_mode", json!(false))),
        ("switch to dark mode", value("settings.dark_mode", json!(true))),
        ("disable dark mode", value("settings.dark_mode", json!(false))),
        ("enable night mode", value("settings.dark_mode", json!(true))),
        ("dark mode on please", value("settings.dark_mode", json!(true))),
        ("uncheck newsletter", value("settings.newsletter", json!(false))),
        ("turn the newsletter on", value("settings.newsletter", json!(true))),
        ("set delivery to express", value("settings.delivery", json!("express"))),
        ("choose pick up for delivery", value("settings.delivery", json!("pick-up"))),
        ("use standard shipping", value("settings.delivery", json!("standard"))),
        ("set the password to Hunter2", value("settings.password", json!("Hunter2"))),
        ("place the order", press("order.place")),
        ("submit my order now", press("order.place")),
        ("cancel my last order", press("order:cancel")),
        ("delete the order", press("order:cancel")),
        ("leave a note saying ring the bell twice", ("order.note", json!({ "text": "ring the bell twice" }))),
        ("log out", press("log_out")),
        ("log me out", press("log_out")),
        ("sign out please", press("log_out")),
    ];
    check(&requests).await;
}

#[tokio::test]
async fn what_is_heard_badly_is_understood_too() {
    let requests = [
        ("open oders", to("orders")),
        ("go to setings", to("settings")),
        ("open the kart", to("cart")),
        ("take me to the hom page", to("home")),
        ("add the blu mug", press("cart.add.blue-mug")),
        ("add the tee pot to the cart", press("cart.add.teapot")),
        ("cancle my order", press("order:cancel")),
        ("turn on dark moat", value("settings.dark_mode", json!(true))),
        ("turn off the news letter", value("settings.newsletter", json!(false))),
        ("set delivry to expres", value("settings.delivery", json!("express"))),
        ("serch for green tea", value("search", json!("green tea"))),
        ("set my pass word to abc", value("settings.password", json!("abc"))),
        ("plase the order", press("order.place")),
    ];
    check(&requests).await;
}

async fn check(requests: &[(&str, (&str, Value))]) {
    let mut wrong = Vec::new();
    for (text, (name, args)) in requests {
        let (calls, said) = heard(text).await;
        if calls != [((*name).to_owned(), args.clone())] {
            wrong.push(format!("{text:?}: {calls:?} and {said:?} instead of {name} {args}"));
        } else if said.is_empty() {
            wrong.push(format!("{text:?}: nothing was said"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), requests.len(), wrong.join("\n"));
}

#[tokio::test]
async fn what_is_not_clear_is_asked_about() {
    let mut wrong = Vec::new();
    for (text, said) in [
        ("add the mug", &["Do you mean", "blue mug", "red mug", "?"][..]),
        ("put a cup in my cart", &["Do you mean", "blue mug", "red mug"]),
        ("dark mode", &["on or off?"]),
        ("set my age", &["which number?"]),
        ("set my age to 200", &["between 0 and 150", "?"]),
        ("search", &["Search the products: what should I put in?"]),
        ("set delivery", &["Which one: standard, express or pick up?"]),
        ("set the delivery to express or standard", &["Do you mean", "express", "standard", "?"]),
        ("add 50 blue mugs", &["Done"]),
        ("open the pod bay doors", &["I am not sure what you mean. You can: go to home, orders"]),
        ("fly me to the moon", &["I am not sure", "You can"]),
        ("show the blue mug", &["mug"]),
        ("delete my account", &["I am not sure"]),
        ("delete", &["I am not sure"]),
        ("cancel order number 5", &["I am not sure"]),
        ("remove the blue mug", &["I am not sure"]),
        ("", &["did not catch"]),
        ("?!", &["did not catch"]),
    ] {
        let (calls, answer) = heard(text).await;
        let done = said == ["Done"];
        if done == calls.is_empty() || !done && !said.iter().all(|part| answer.contains(part)) {
            wrong.push(format!("{text:?}: {calls:?} and {answer:?} instead of {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn questions_and_small_talk_do_nothing() {
    let mut wrong = Vec::new();
    for (text, said) in [
        ("where am I?", "Orders page of the Corner Shop."),
        ("What's in my cart?", "Your cart holds one red mug for 12.50 euros."),
        ("what is in the basket", "Your cart holds one red mug for 12.50 euros."),
        ("how many orders do I have", "You have two orders."),
        ("is delivery free", "Delivery is free above 30 euros."),
        ("tell me about the teapot", "Order 18: a teapot, on its way."),
        ("where is my tee pot", "Order 18: a teapot, on its way."),
        ("what is the weather like", "I do not see anything about that here."),
        ("how do I cancel the last order?", "You can ask me to cancel the last order."),
        ("stop", "Okay."),
        ("never mind", "Okay."),
        ("cancel", "Okay."),
        ("thank you", "You are welcome."),
        ("goodbye", "Goodbye."),
        ("don't place the order", "Okay, I will leave it."),
        ("please do not clear the cart", "Okay, I will leave it."),
        ("say that again", "I have not said anything yet."),
    ] {
        let (calls, answer) = heard(text).await;
        if !calls.is_empty() || !answer.starts_with(said) {
            wrong.push(format!("{text:?}: {calls:?} and {answer:?} instead of {said:?}"));
        }
    }
    for (text, said) in [
        (
            "what can I do here?",
            "You can: go to home, orders, settings, help or cart; add the blue mug to the cart",
        ),
        ("what can you do", "You can: go to home"),
        ("hello", "Hello. You can: go to home"),
        ("what is on the screen", "Orders page of the Corner Shop. You have two orders. Order 17"),
    ] {
        let (calls, answer) = heard(text).await;
        if !calls.is_empty() || !answer.starts_with(said) {
            wrong.push(format!("{text:?}: {calls:?} and {answer:?} instead of {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn several_things_are_done_one_after_another() {
    let both =
        |text| async move { heard(text).await.0.into_iter().map(|(name, _)| name).collect::<Vec<_>>() };
    assert_eq!(both("add the teapot and then open the cart").await, ["cart.add.teapot", "navigate"]);
    assert_eq!(
        both("open settings, then turn on dark mode, then go home").await,
        ["navigate", "settings.dark_mode", "navigate"]
    );
    assert_eq!(both("add the red mug and place the order").await, ["cart.add.red-mug", "order.place"]);
    assert_eq!(both("add the red mug and the teapot").await, ["cart.add.red-mug", "cart.add.teapot"]);
    let (calls, _) = heard("search for salt and pepper").await;
    assert_eq!(calls, [("search".to_owned(), json!({ "value": "salt and pepper" }))]);
    let (calls, said) = heard("add the mug and then place the order").await;
    assert!(calls.is_empty(), "what is not clear stops the rest: {said}");
    assert!(said.starts_with("I have not done the rest: place the order. Do you mean"), "{said}");
    let refused =
        |_: &str| Some(CallEnd::Failed(CallError::new("ACT_DISABLED", "The shop is closed. Sorry.")));
    let (calls, said) = in_shop("add the teapot and then open the cart", Vec::new(), refused).await;
    let told = "That did not work: The shop is closed. I have not done the rest: open the cart.";
    assert_eq!((calls.len(), said.as_str()), (1, told));
}

#[tokio::test]
async fn of_several_requests_none_is_dropped_in_silence() {
    let both =
        |text| async move { heard(text).await.0.into_iter().map(|(name, _)| name).collect::<Vec<_>>() };
    assert_eq!(
        both("place the order and also turn on dark mode").await,
        ["order.place", "settings.dark_mode"]
    );
    assert_eq!(both("turn on dark mode and please also log out").await, ["settings.dark_mode", "log_out"]);
    // What cannot be done is told, with what was left because of it.
    let (calls, said) = heard("print the invoice and turn on dark mode").await;
    assert!(calls.is_empty() && said.contains("I have not done the rest: turn on dark mode."), "{said}");
    let (calls, said) = heard("turn on dark mode and print the invoice").await;
    assert_eq!(calls.len(), 1);
    assert!(said.starts_with("Done. It is on now. I am not sure what you mean."), "{said}");
    // Whoever says no to the first has not said yes to the second.
    let no = |_: &str| Some(CallEnd::Failed(CallError::new("ACT_CONFIRMATION_REQUIRED", "the user said no")));
    let (calls, said) = in_shop("place the order and turn on dark mode", Vec::new(), no).await;
    assert_eq!(calls.len(), 1);
    assert_eq!(said, "Okay, I left it as it is. I have not done the rest: turn on dark mode.");
    // Words that are written down are no requests.
    let (calls, _) = heard("search for salt and print paper").await;
    assert_eq!(calls, [("search".to_owned(), json!({ "value": "salt and print paper" }))]);
}

#[tokio::test]
async fn things_of_a_kind_are_told_apart_by_their_place() {
    let chosen = async |text: &str, ids: &[&str]| {
        let port = Port::new(|_| Some(CallEnd::done(Value::Null)));
        let cancel =
            |id: &&str| button(&format!("order.cancel.{id}"), &format!("Cancel order {id}, olive oil"));
        *port.tools.lock().unwrap() = ids.iter().map(cancel).chain(shop()).collect();
        port.tools.lock().unwrap().retain(|tool| tool.name.as_str() != "order:cancel");
        run(&Butler::default(), &port, chat(text)).await.unwrap();
        calls(&port).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(chosen("delete the first order", &["1042"]).await, ["order.cancel.1042"]);
    let three = ["1044", "1043", "1042"];
    assert_eq!(chosen("delete the first order", &three).await, ["order.cancel.1044"]);
    assert_eq!(chosen("cancel the second order", &three).await, ["order.cancel.1043"]);
    assert_eq!(chosen("please cancel the last order", &three).await, ["order.cancel.1042"]);
    assert_eq!(chosen("cancel order 1043", &three).await, ["order.cancel.1043"]);
    assert_eq!(chosen("cancel the order", &three).await, Vec::<String>::new(), "which one?");
}

#[tokio::test]
async fn the_answer_tells_what_came_of_it() {
    let said = async |text: &str, end: CallEnd| in_shop(text, Vec::new(), move |_| Some(end.clone())).await.1;
    let screen = json!({ "status": "success", "screen": "Orders page. You have two orders." });
    assert_eq!(said("open orders", CallEnd::done(screen)).await, "Orders page.");
    assert_eq!(said("open orders", CallEnd::done(Value::Null)).await, "Here is orders.");
    assert_eq!(said("turn dark mode off", CallEnd::done(Value::Null)).await, "Done. It is off now.");
    assert_eq!(said("place the order", CallEnd::done(json!({}))).await, "Done: place the order.");
    assert_eq!(
        said("place the order", CallEnd::done(json!({ "data": { "status": "rejected" } }))).await,
        "Okay, I left it as it is."
    );
    let password = said("set my password to Hunter2", CallEnd::done(json!({}))).await;
    assert!(!password.contains("Hunter2"), "{password}");
}

fn row(author: Author, text: &str) -> MessageRow {
    MessageRow {
        session: SessionId::from("ses_test"),
        message: "msg_1".into(),
        parent: None,
        // As told with the turn by a client that keeps its own history.
        turn: TurnId::from("inv_test"),
        author,
        parts: vec![Part::Text(text.into())],
        seq: 1,
        at: Timestamp::from_secs(1),
        status: MessageStatus::Complete,
    }
}

#[tokio::test]
async fn an_answer_to_its_question_is_understood() {
    let after = async |before: &str, text: &str| {
        let (none, question) = heard(before).await;
        assert!(none.is_empty() && question.ends_with('?'), "{before}: {question}");
        let user = row(Author::User("ann".into()), before);
        let agent = row(Author::Agent(AgentId::from("agent")), &question);
        in_shop(text, vec![user, agent], |_| Some(CallEnd::done(Value::Null))).await.0
    };
    let mut wrong = Vec::new();
    for (before, text, (name, args)) in [
        ("search", "orders", value("search", json!("orders"))),
        ("search", "go to orders", to("orders")),
        ("set my name", "Ada Lovelace, please", value("settings.name", json!("Ada Lovelace"))),
        ("set my age", "forty two", value("settings.age", json!(42))),
        ("set my age to 200", "20", value("settings.age", json!(20))),
        ("dark mode", "off", value("settings.dark_mode", json!(false))),
        ("dark mode", "on please", value("settings.dark_mode", json!(true))),
        ("set delivery", "the express one", value("settings.delivery", json!("express"))),
        ("add the mug", "the blue one", press("cart.add.blue-mug")),
        ("add the mug", "red", press("cart.add.red-mug")),
        ("add the mug", "the second one", press("cart.add.red-mug")),
        ("add the mug", "the first", press("cart.add.blue-mug")),
    ] {
        let calls = after(before, text).await;
        if calls != [(name.to_owned(), args.clone())] {
            wrong.push(format!("{before:?}, {text:?}: {calls:?} instead of {name} {args}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(after("add the mug", "stop").await.is_empty());
}

#[tokio::test]
async fn nothing_is_used_that_is_not_offered() {
    let words = [
        "open",
        "orders",
        "cancel",
        "order",
        "the",
        "add",
        "blue",
        "mug",
        "to",
        "cart",
        "search",
        "for",
        "turn",
        "on",
        "off",
        "dark",
        "mode",
        "set",
        "name",
        "seven",
        "and",
        "then",
        "what",
        "is",
        "please",
        "delete",
        "everything",
    ];
    let mut seed = 7_u64;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below
    };
    let all = shop();
    for _ in 0..300 {
        let text: Vec<&str> = (0..=next(9)).map(|_| words[next(words.len())]).collect();
        let text = text.join(" ");
        let offered: Vec<Tool> = all.iter().filter(|_| next(3) == 0).cloned().collect();
        let names: BTreeSet<String> = offered.iter().map(|tool| tool.name.to_string()).collect();
        let port = Port::new(|_| Some(CallEnd::done(Value::Null)));
        *port.tools.lock().unwrap() = offered.clone();
        run(&Butler::default(), &port, chat(&text)).await.unwrap();
        for (name, args) in calls(&port) {
            assert!(names.contains(&name), "{text}: {name}");
            let tool = offered.iter().find(|tool| tool.name.as_str() == name).unwrap();
            let required = tool.input_schema["required"].as_array().unwrap();
            assert!(
                required.iter().all(|param| args.get(param.as_str().unwrap()).is_some()),
                "{text}: {args}"
            );
            let removes = name == "cart.clear" || name == "order:cancel";
            let removal = ["cancel", "delete"].iter().any(|word| text.contains(word));
            assert!(!removes || removal, "{text}: {name}");
        }
        assert!(!port.text().is_empty(), "{text}");
    }
}

#[tokio::test]
async fn tools_and_scene_are_those_of_the_moment() {
    let shown: Arc<OnceLock<Weak<Port>>> = Arc::default();
    let app = shown.clone();
    let port = Port::new(move |call| {
        let CallKind::Tool { name, .. } = &call.kind else { return None };
        if name.as_str() == "navigate" {
            let port = app.get().unwrap().upgrade().unwrap();
            *port.tools.lock().unwrap() = vec![button("help.call", "Call the shop by telephone.")];
            return Some(CallEnd::done(json!({ "screen": "Help page. We are open until six." })));
        }
        Some(CallEnd::done(json!("Calling.")))
    });
    shown.set(Arc::downgrade(&port)).unwrap();
    *port.tools.lock().unwrap() = vec![shop()[0].clone()];
    run(&Butler::default(), &port, chat("go to help and then call the shop then what is open until"))
        .await
        .unwrap();
    let names: Vec<String> = calls(&port).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["navigate", "help.call"]);
    assert_eq!(port.text(), "Help page. Calling. We are open until six.");
}

#[tokio::test]
async fn without_tools_it_says_so() {
    let port = Port::silent();
    run(&Butler::default(), &port, chat("open orders")).await.unwrap();
    assert_eq!(port.text(), "I am not sure what you mean. There is nothing that I can do here.");
    let port = Port::silent();
    let error = run(&Butler::default(), &port, support::tool("x", json!({}))).await.unwrap_err();
    assert!(
        matches!(error, switchboard_agents::AgentError::Failed(failure) if failure.kind == FailureKind::ToolNotFound)
    );
    assert_eq!((Butler::default().kind(), Butler::default().recovery()), ("butler", Recovery::Fail));
}

#[tokio::test]
async fn what_may_destroy_something_elsewhere_is_asked_about() {
    for (approve, wanted) in [(true, "Done: delete the file."), (false, "Okay, I left it as it is.")] {
        let port = Port::new(move |call| match &call.kind {
            CallKind::Question { .. } => Some(CallEnd::done(json!({ "approve": approve }))),
            CallKind::Tool { .. } => Some(CallEnd::done(Value::Null)),
        });
        let annotations = ToolAnnotations { destructive: Some(true), ..ToolAnnotations::default() };
        let executor = Executor::Anyone;
        *port.tools.lock().unwrap() =
            vec![Tool { annotations, executor, ..button("file.delete", "Delete the file.") }];
        let butler = Butler::new(ButlerConfig { tool_timeout_ms: 5_000, ..ButlerConfig::default() });
        run(&butler, &port, chat("delete the file")).await.unwrap();
        assert_eq!((port.text().as_str(), port.calls().len()), (wanted, 1 + usize::from(approve)));
    }
}

#[tokio::test]
async fn what_nobody_can_say_does_no_harm() {
    let mut tools = shop();
    tools.push(tool("odd", "Zebra", json!({ "x": { "type": "array" }, "y": true }), &["x", "y", "z"]));
    tools.push(Tool { input_schema: Value::Null.into(), ..button("", "") });
    tools.push(Tool {
        input_schema: json!({ "properties": [1], "required": {} }).into(),
        ..button("::", "…")
    });
    for text in [
        "zebra",
        &"orders ".repeat(10_000),
        "\u{0}\u{202e}",
        "«»",
        "\"",
        "and then",
        "then then then",
        "one",
        "to",
    ] {
        let port = Port::new(|_| Some(CallEnd::done(Value::Null)));
        port.tools.lock().unwrap().clone_from(&tools);
        run(&Butler::default(), &port, chat(text)).await.unwrap();
        assert!(!port.text().is_empty());
        assert!(
            port.calls()
                .iter()
                .all(|call| !matches!(&call.kind, CallKind::Tool { name, .. } if name.as_str() == "odd"))
        );
    }
}
