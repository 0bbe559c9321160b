//! What is stored, and what never is: VIP-079 and section 17.

use serde_json::{Value, json};

use crate::client::Stage;

const PASSWORD: &str = "hunter2-correct-horse";

/// Every byte that the server has stored.
fn stored(stage: &Stage) -> Vec<u8> {
    fn walk(folder: &std::path::Path, all: &mut Vec<u8>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                walk(&entry.path(), all);
            } else {
                all.extend(std::fs::read(entry.path()).unwrap());
            }
        }
    }
    let mut all = Vec::new();
    walk(stage.server.data.path(), &mut all);
    all
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn vip_079_a_password_is_stored_nowhere() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene, called, invoke) = stage.acting("secret.fill", json!({ "value": PASSWORD })).await;
    assert_eq!(invoke["data"]["parameters"]["value"], PASSWORD);
    client.result(&invoke, &json!({ "data": { "filled": "visible-result" } })).await;
    client.changed("ai_thinking").await;
    called.end().await.unwrap();
    scene.answer("It is filled in.").await;
    let response = client.speaking().await;
    client.finished(&response).await;
    let history = client.history().await;
    assert!(history.iter().any(|item| item["action_id"] == "secret.fill"), "{history:?}");
    assert!(!json!(history).to_string().contains(PASSWORD));
    let bytes = stored(&stage);
    assert!(holds(&bytes, "visible-result"), "nothing is stored at all");
    assert!(!holds(&bytes, PASSWORD), "the password is in the data folder");
}

#[tokio::test]
async fn vip_079_a_password_in_other_members_is_stored_nowhere() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("log in").await;
    let end = scene.call(
        "secret.fill",
        json!({ "value": PASSWORD, "more": { "value": PASSWORD } }),
        crate::device::PATIENCE,
    );
    let events = client.barrier().await;
    if events.is_empty() {
        assert!(end.end().await.is_err());
    }
    assert!(!holds(&stored(&stage), PASSWORD), "the password is in the data folder");
}

#[tokio::test]
async fn secrets_of_a_session_are_not_stored() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("a marker that is stored").await;
    scene.answer("Yes.").await;
    let response = client.speaking().await;
    client.finished(&response).await;
    let bytes = stored(&stage);
    assert!(holds(&bytes, "a marker that is stored"), "nothing is stored at all");
    assert!(!holds(&bytes, client.resume.as_str().unwrap()), "the resume token is stored in the clear");
    assert!(!holds(&bytes, client.session["session_token"].as_str().unwrap()), "the session token is stored");
    assert_ne!(client.session["session_token"], Value::Null);
}

#[tokio::test]
async fn the_history_tells_what_was_done() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene, called, invoke) = stage.acting("cart.add", json!({ "count": 2 })).await;
    client.result(&invoke, &json!({ "data": { "in_cart": 2 } })).await;
    client.changed("ai_thinking").await;
    called.end().await.unwrap();
    scene.answer("Two are in the cart.").await;
    let response = client.speaking().await;
    client.finished(&response).await;
    let history = client.history().await;
    let told: Vec<_> = history
        .iter()
        .filter(|item| item["kind"] != "state")
        .map(|item| (item["role"].as_str().unwrap(), item["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(told[0], ("user", "message"));
    assert!(told.contains(&("assistant", "action")), "{told:?}");
    assert!(told.iter().any(|(_, kind)| *kind == "result"), "{told:?}");
    assert_eq!(told.last(), Some(&("assistant", "message")));
    let seqs: Vec<_> = history.iter().map(|item| item["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=u64::try_from(history.len()).unwrap()).collect::<Vec<_>>());
}
