//! Messages and branches.

use serde_json::{Value, json};
use switchboard_core::model::{Import, Op, Parent, Voice};
use switchboard_core::{Method, SessionId};

use crate::town::Town;

fn texts(messages: &Value) -> Vec<&str> {
    messages.as_array().unwrap().iter().map(|message| message["contents"].as_str().unwrap()).collect()
}

fn say(town: &mut Town, id: &str, body: &Value) -> Value {
    let answer = town.post(&format!("/api/v1/conversations/{id}/messages"), body);
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()
}

#[test]
fn a_message_is_posted_and_answered() {
    let mut town = Town::new();
    let id = town.conversation();
    let posted = say(&mut town, &id, &json!({"contents": "hello"}));
    assert!(posted["id"].as_str().unwrap().starts_with("am_"));
    assert_eq!((&posted["role"], &posted["sequence_number"]), (&json!("user"), &json!(1)));
    let answer = town.answer(&id, "Hi. There.");
    let list = town.get(&format!("/api/v1/conversations/{id}/messages")).json();
    assert_eq!(texts(&list["messages"]), ["hello", "Hi. There."]);
    assert_eq!(
        (&list["messages"][1]["id"], &list["messages"][1]["previous_id"]),
        (&json!(answer), &posted["id"])
    );
    assert_eq!(
        (&list["messages"][1]["completion_status"], &list["has_more"]),
        (&json!("completed"), &json!(false))
    );
    let shown = town.get(&format!("/api/v1/conversations/{id}")).json();
    assert_eq!(shown["tip_message_id"], json!(answer));
}

#[test]
fn the_spelling_of_the_lite_profile_is_read() {
    let mut town = Town::new();
    let id = town.conversation();
    assert_eq!(
        say(&mut town, &id, &json!({"content": "lite", "use_pareto": true}))["contents"],
        json!("lite")
    );
}

#[test]
fn al_045_what_cannot_be_said_is_refused() {
    let mut town = Town::new();
    let path = format!("/api/v1/conversations/{}/messages", town.conversation());
    for (body, status) in [
        (json!({}), 400),
        (json!({"contents": "  "}), 400),
        (json!({"contents": 7}), 400),
        (json!({"contents": "x".repeat(65_537)}), 413),
        (json!({"contents": "x", "previous_id": "am_unknown"}), 404),
        (json!({"contents": "x", "previous_id": "two words"}), 400),
        (json!({"contents": "x", "local_id": "l".repeat(256)}), 400),
    ] {
        let answer = town.post(&path, &body);
        assert_eq!((answer.status, &answer.json()["code"]), (status, &json!(status)));
    }
    assert_eq!(texts(&town.get(&path).json()["messages"]), Vec::<&str>::new());
}

#[test]
fn a_message_posted_twice_under_one_local_id_is_one() {
    let mut town = Town::new();
    let id = town.conversation();
    let body = json!({"contents": "once", "local_id": "local_1"});
    let first = say(&mut town, &id, &body);
    assert_eq!((&first["local_id"], &first["server_id"]), (&json!("local_1"), &first["id"]));
    assert_eq!(say(&mut town, &id, &body), first);
    let other = town.post(
        &format!("/api/v1/conversations/{id}/messages"),
        &json!({"contents": "other", "local_id": "local_1"}),
    );
    assert_eq!(other.status, 409);
    let all = town.get(&format!("/api/v1/conversations/{id}/messages?all=true")).json();
    assert_eq!(texts(&all["messages"]), ["once"]);
}

#[test]
fn al_051_a_message_supersedes_the_answer_under_way() {
    let mut town = Town::new();
    let id = town.conversation();
    say(&mut town, &id, &json!({"contents": "one"}));
    say(&mut town, &id, &json!({"contents": "two"}));
    let live: Vec<_> = town.annals(&SessionId::new(id.as_str())).live_answers().collect();
    assert_eq!(live.len(), 1);
}

#[test]
fn branches_are_listed_and_switched() {
    let mut town = Town::new();
    let id = town.conversation();
    let path = format!("/api/v1/conversations/{id}");
    let question = say(&mut town, &id, &json!({"contents": "q1"}));
    let answer = town.answer(&id, "a1");
    let left = say(&mut town, &id, &json!({"contents": "left"}));
    town.answer(&id, "left answer");
    let right = say(&mut town, &id, &json!({"contents": "right", "previous_id": answer}));
    town.answer(&id, "right answer");
    assert_eq!(
        texts(&town.get(&format!("{path}/messages")).json()["messages"]),
        ["q1", "a1", "right", "right answer"]
    );
    let all = town.get(&format!("{path}/messages?all=true")).json();
    assert_eq!(texts(&all["messages"]), ["q1", "a1", "left", "left answer", "right", "right answer"]);

    let siblings = town.get(&format!("/api/v1/messages/{}/siblings", left["id"].as_str().unwrap())).json();
    assert_eq!(texts(&siblings["siblings"]), ["left", "right"]);
    let root = town.get(&format!("/api/v1/messages/{}/siblings", question["id"].as_str().unwrap())).json();
    assert_eq!(texts(&root["siblings"]), ["q1"]);
    let foreign = format!("/api/v1/messages/{}/siblings", right["id"].as_str().unwrap());
    assert_eq!(town.ask("bob", Method::Get, &foreign, &[], "").status, 404);
    assert_eq!(town.get("/api/v1/messages/am_unknown/siblings").status, 404);

    let switched = town.post(&format!("{path}/switch-branch"), &json!({"tip_message_id": left["id"]}));
    assert_eq!((switched.status, &switched.json()["tip_message_id"]), (200, &left["id"]));
    assert_eq!(texts(&town.get(&format!("{path}/messages")).json()["messages"]), ["q1", "a1", "left"]);
    for body in [json!({}), json!({"tip_message_id": ""})] {
        assert_eq!(town.post(&format!("{path}/switch-branch"), &body).status, 400);
    }
    assert_eq!(town.post(&format!("{path}/switch-branch"), &json!({"tip_message_id": "am_x"})).status, 404);
}

#[test]
fn an_answer_of_which_nothing_came_is_not_gone_on_from() {
    let mut town = Town::new();
    let id = town.conversation();
    let path = format!("/api/v1/conversations/{id}");
    let question = say(&mut town, &id, &json!({"contents": "q1"}));
    let failed = town.fail(&id);
    let all = town.get(&format!("{path}/messages?all=true")).json();
    assert_eq!(all["messages"][1]["completion_status"], json!("failed"));
    let switched = town.post(&format!("{path}/switch-branch"), &json!({"tip_message_id": failed}));
    assert_eq!(switched.status, 409);
    let next = say(&mut town, &id, &json!({"contents": "q2", "previous_id": failed}));
    assert_eq!(next["previous_id"], question["id"]);
}

#[test]
fn large_pages_are_cut() {
    let mut town = Town::new();
    let id = town.conversation();
    let session = SessionId::new(id.as_str());
    for number in 0..40 {
        let import = Import {
            id: format!("am_{number}").as_str().into(),
            parent: Parent::Tip,
            voice: Voice::User,
            text: "x".repeat(200 << 10),
            meta: Value::Null,
        };
        town.submit("ann", &session, &Op::Import(Box::new(import))).unwrap();
    }
    let path = format!("/api/v1/conversations/{id}/messages");
    let page = town.get(&path).json();
    assert_eq!((page["messages"].as_array().unwrap().len(), &page["has_more"]), (20, &json!(true)));
    let page = town.get(&format!("{path}?after=20")).json();
    assert_eq!((&page["messages"][0]["id"], &page["has_more"]), (&json!("am_20"), &json!(false)));
}

#[test]
fn long_histories_come_in_pages() {
    let mut town = Town::new();
    let id = town.conversation();
    let session = SessionId::new(id.as_str());
    for number in 0..1_203 {
        let import = Import {
            id: format!("am_{number}").as_str().into(),
            parent: Parent::Tip,
            voice: Voice::User,
            text: number.to_string(),
            meta: Value::Null,
        };
        town.submit("ann", &session, &Op::Import(Box::new(import))).unwrap();
    }
    let path = format!("/api/v1/conversations/{id}/messages");
    for all in ["", "&all=true"] {
        let (mut seen, mut after) = (Vec::new(), 0);
        loop {
            let page = town.get(&format!("{path}?after={after}&limit=500{all}")).json();
            seen.extend(texts(&page["messages"]).into_iter().map(str::to_owned));
            after = page["messages"].as_array().unwrap().last().unwrap()["sequence_number"].as_i64().unwrap();
            if page["has_more"] == json!(false) {
                break;
            }
        }
        assert_eq!(seen, (0..1_203).map(|number| number.to_string()).collect::<Vec<_>>(), "{all}");
    }
    let few = town.get(&format!("{path}?limit=2")).json();
    assert_eq!((texts(&few["messages"]), &few["has_more"]), (vec!["0", "1"], &json!(true)));
    assert_eq!(town.get(&format!("{path}?after=1203")).json(), json!({"messages": [], "has_more": false}));
}

#[test]
fn the_elite_that_was_chosen_answers() {
    let mut town = Town::new();
    let id = town.conversation();
    let session = SessionId::new(id.as_str());
    let record = switchboard_alicia::deed::Deed::Chose { elite: "pa_1".into() }.to_record();
    town.submit("ann", &session, &Op::Record { chronicle: "alicia".into(), record }).unwrap();
    assert_eq!(town.agent_of_next_turn(&id, "hello"), "quick");
}
