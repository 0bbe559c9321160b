//! Losses, and what comes after them.

use switchboard_client::Refusal;
use switchboard_client::alicia::{
    Cause, Client, Connect, ConnectError, ConnectionEvent, ConversationEvent, Join, Since,
};

use crate::support::{BOB, Cable, Served, answer, soon, until};

#[tokio::test]
async fn al_037_an_answer_that_is_cut_goes_on_where_it_was() {
    let server = Served::start().await;
    let cable = Cable::to(server.address).await;
    let client = cable.client().await;
    let mut events = client.events();
    let (conversation, mut updates) = soon(client.conversation(Join::create())).await.expect("joined");
    soon(conversation.say("words One goes here. Two goes there. Three is gone. Four is back. Five waits. Six sleeps. Seven ends. every 60"))
        .await
        .expect("said");
    let mut pieces = String::new();
    while pieces.is_empty() {
        if let ConversationEvent::Piece { text, .. } = soon(updates.next()).await.expect("an event") {
            pieces.push_str(&text.0);
        }
    }
    cable.cut();
    let mut interrupted = 0;
    let joined = until(&mut updates, |event| {
        match event {
            ConversationEvent::Piece { text, .. } => pieces.push_str(&text.0),
            ConversationEvent::Interrupted { .. } => {
                interrupted += 1;
                cable.plug_into(server.address);
            }
            _ => {}
        }
        matches!(event, ConversationEvent::Joined(joined) if joined.again)
    });
    joined.await;
    assert_eq!(interrupted, 1);
    let (whole, rest) = answer(&mut updates).await;
    pieces.push_str(&rest);
    assert_eq!(
        whole.text.0,
        "One goes here. Two goes there. Three is gone. Four is back. Five waits. Six sleeps. Seven ends."
    );
    assert_eq!(pieces, whole.text.0, "nothing is missing, and nothing is told twice");
    assert!(matches!(soon(events.next()).await, Some(ConnectionEvent::Disconnected { .. })));
}

#[tokio::test]
async fn al_040_what_is_said_while_the_connection_is_lost_is_said_once_it_is_back() {
    let server = Served::start().await;
    let cable = Cable::to(server.address).await;
    let client = cable.client().await;
    let mut events = client.events();
    let (conversation, mut updates) = soon(client.conversation(Join::create())).await.expect("joined");
    cable.cut();
    assert!(matches!(soon(events.next()).await, Some(ConnectionEvent::Disconnected { .. })));
    let say = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.say("echo later").await }
    });
    cable.plug_into(server.address);
    client.network_is_back();
    let question = soon(say).await.expect("no panic").expect("said");
    let (answer, _) = answer(&mut updates).await;
    assert_eq!((answer.question, answer.text.0.as_str()), (Some(question), "later"));
    let messages = server.library().messages(conversation.id(), None).await.expect("messages");
    assert_eq!(messages.items.len(), 2, "once");
}

#[tokio::test]
async fn a_conversation_outlives_the_server() {
    let server = Served::start().await;
    let cable = Cable::to(server.address).await;
    let client = cable.client().await;
    let (conversation, mut updates) = soon(client.conversation(Join::create())).await.expect("joined");
    soon(conversation.say("echo before")).await.expect("said");
    answer(&mut updates).await;
    cable.cut();
    let server = server.restart().await;
    cable.plug_into(server.address);
    client.network_is_back();
    until(&mut updates, |event| matches!(event, ConversationEvent::Joined(joined) if joined.again)).await;
    soon(conversation.say("echo after")).await.expect("said");
    let (answer, _) = answer(&mut updates).await;
    assert_eq!(answer.text.0, "after");
}

#[tokio::test]
async fn another_client_goes_on_from_the_mark() {
    let server = Served::start().await;
    let (first, conversation, mut updates) = server.conversation().await;
    let id = conversation.id().clone();
    soon(conversation.say("echo one")).await.expect("said");
    answer(&mut updates).await;
    let mark = conversation.mark().await.expect("a mark");
    assert!(mark < 0);
    soon(conversation.say("echo two")).await.expect("said");
    let (two, _) = answer(&mut updates).await;
    first.close().await;

    let second = server.client().await;
    let join = Join::existing(id.clone()).since(Since::Stanza(mark));
    let (_conversation, mut updates) = soon(second.conversation(join)).await.expect("joined");
    let (replayed, _) = answer(&mut updates).await;
    assert_eq!(replayed, two);

    let third = server.client().await;
    let join = Join::existing(id).since(Since::Message(0));
    let (_conversation, mut updates) = soon(third.conversation(join)).await.expect("joined");
    let (one, _) = answer(&mut updates).await;
    let (again, _) = answer(&mut updates).await;
    assert_eq!((one.text.0.as_str(), again.text.0.as_str()), ("one", "two"));
}

#[tokio::test]
async fn nobody_gets_in_without_a_credential_or_into_what_is_not_theirs() {
    let server = Served::start().await;
    let url = format!("http://{}", server.address);
    let refused = Client::connect(Connect::new(url.clone())).await.expect_err("no credential");
    let ConnectError::Failed(cause @ Cause::Refused(Refusal { status: 401, .. })) = refused else {
        panic!("{refused:?}")
    };
    assert!(!cause.is_temporary());
    let (_client, conversation, _updates) = server.conversation().await;
    let bob = Client::connect(Connect::new(url).token(BOB)).await.expect("connected");
    let foreign = soon(bob.conversation(Join::existing(conversation.id().clone()))).await;
    assert!(foreign.is_err());
}

#[tokio::test]
async fn a_slow_reader_loses_nothing() {
    let server = Served::start().await;
    let (_client, conversation, mut updates) = server.conversation().await;
    let words: String = (0..2_000).map(|number| format!("Number {number} is here. ")).collect();
    soon(conversation.say(format!("words {}", words.trim_end()))).await.expect("said");
    // Long enough for every buffer to fill up.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let (answer, pieces) = answer(&mut updates).await;
    assert_eq!(pieces, words.trim_end());
    assert_eq!(answer.text.0, pieces);
}
