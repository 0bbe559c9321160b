//! What is served over HTTP.

use switchboard_client::alicia::Id;

use crate::support::{Served, answer, soon};

#[tokio::test]
async fn conversations_are_listed_named_and_deleted() {
    let server = Served::start().await;
    let library = server.library();
    let made = library.create(Some("Tea")).await.expect("made");
    let id = Id::new(made.id.clone()).expect("an id");
    assert_eq!(made.title.as_deref(), Some("Tea"));
    let renamed = library.rename(&id, "Coffee").await.expect("renamed");
    assert_eq!(renamed.title.as_deref(), Some("Coffee"));
    let listed = library.conversations(None).await.expect("a list");
    assert!(listed.items.iter().any(|row| row.id == made.id && row.title.as_deref() == Some("Coffee")));
    library.delete(&id).await.expect("deleted");
    assert!(library.conversation(&id).await.expect_err("gone").is_not_found());
}

#[tokio::test]
async fn branches_are_seen_and_switched() {
    let server = Served::start().await;
    let library = server.library();
    let (_client, conversation, mut updates) = server.conversation().await;
    let id = conversation.id().clone();
    let question = soon(conversation.say("echo one")).await.expect("said");
    let (first, _) = answer(&mut updates).await;
    soon(conversation.regenerate(question)).await.expect("again");
    let (second, _) = answer(&mut updates).await;
    let path = |rows: Vec<switchboard_client::alicia::MessageRow>| {
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    let active = path(library.messages(&id, None).await.expect("messages").items);
    assert_eq!(active.last().map(String::as_str), Some(second.id.as_str()));
    assert_eq!(library.tree(&id, None).await.expect("all").items.len(), 3);
    let siblings = path(library.siblings(&second.id).await.expect("siblings"));
    assert_eq!(siblings.len(), 2);
    library.switch_branch(&id, &first.id).await.expect("switched");
    let active = path(library.messages(&id, None).await.expect("messages").items);
    assert_eq!(active.last().map(String::as_str), Some(first.id.as_str()));
    assert_eq!(
        library.conversation(&id).await.expect("it").tip_message_id.as_deref(),
        Some(first.id.as_str())
    );
}
