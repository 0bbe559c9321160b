//! Questions and answers.

use switchboard_client::alicia::{ClientError, ConversationEvent, Join, RequestError, TurnError, Vote};

use crate::support::{Served, answer, soon, until};

#[tokio::test]
async fn a_question_is_answered_in_sentences() {
    let server = Served::start().await;
    let (client, conversation, mut updates) = server.conversation().await;
    assert!(conversation.id().as_str().starts_with("ac_"));
    let question = soon(conversation.say("words One is here. Two is there. Three!")).await.expect("said");
    let (answer, pieces) = answer(&mut updates).await;
    assert_eq!(answer.text.0, "One is here. Two is there. Three!");
    assert_eq!((answer.question, answer.whole), (Some(question), true));
    assert_eq!(pieces, answer.text.0);
    let stats = until(&mut updates, |event| matches!(event, ConversationEvent::Stats(_))).await;
    let ConversationEvent::Stats(stats) = stats else { panic!() };
    assert_eq!(stats.message_count, 2);
    client.close().await;
    assert!(soon(conversation.say("echo more")).await.is_err());
}

#[tokio::test]
async fn reasoning_tools_and_failures_are_told() {
    let server = Served::start().await;
    let (_client, conversation, mut updates) = server.conversation().await;
    soon(conversation.say("reason 2")).await.expect("said");
    until(&mut updates, |event| matches!(event, ConversationEvent::Reasoning(_))).await;
    answer(&mut updates).await;
    soon(conversation.say("tool worker 1")).await.expect("said");
    let used = until(&mut updates, |event| matches!(event, ConversationEvent::ToolUsed(_))).await;
    let ConversationEvent::ToolUsed(used) = used else { panic!() };
    assert_eq!(used.tool_name, "worker");
    let given = until(&mut updates, |event| matches!(event, ConversationEvent::ToolResult(_))).await;
    assert!(matches!(given, ConversationEvent::ToolResult(result) if result.success));
    answer(&mut updates).await;
    let question = soon(conversation.say("fail broken")).await.expect("said");
    let failed = soon(updates.answer_to(&question)).await;
    assert!(matches!(failed, Err(TurnError::Failed(_))), "{failed:?}");
    let question = soon(conversation.say("echo well")).await.expect("said");
    assert_eq!(soon(updates.answer_to(&question)).await.expect("an answer").text.0, "well");
}

#[tokio::test]
async fn an_answer_is_stopped() {
    let server = Served::start().await;
    let (_client, conversation, mut updates) = server.conversation().await;
    soon(conversation.say("count 1000 every 20")).await.expect("said");
    until(&mut updates, |event| matches!(event, ConversationEvent::Started { .. })).await;
    soon(conversation.stop()).await.expect("stopped");
    let (answer, _) = answer(&mut updates).await;
    assert!(answer.text.0.len() < 3_000, "{}", answer.text.0.len());
}

#[tokio::test]
async fn a_message_is_answered_again_edited_and_continued() {
    let server = Served::start().await;
    let (_client, conversation, mut updates) = server.conversation().await;
    let question = soon(conversation.say("echo first")).await.expect("said");
    let (first, _) = answer(&mut updates).await;
    soon(conversation.regenerate(first.id.clone())).await.expect("again");
    let (second, _) = answer(&mut updates).await;
    assert_ne!(second.id, first.id);
    assert_eq!((second.question.as_ref(), second.text.0.as_str()), (Some(&question), "first"));

    soon(conversation.edit(question.clone(), "echo other")).await.expect("edited");
    let edited = until(&mut updates, |event| matches!(event, ConversationEvent::Question(_))).await;
    let ConversationEvent::Question(edited) = edited else { panic!() };
    assert_eq!(edited.content.0, "echo other");
    let (third, _) = answer(&mut updates).await;
    assert_eq!((third.question, third.text.0.as_str()), (Some(edited.id), "other"));

    soon(conversation.edit(third.id.clone(), "corrected")).await.expect("edited");
    let (corrected, _) = answer(&mut updates).await;
    assert_eq!(
        (&corrected.id, corrected.text.0.as_str(), corrected.replaces),
        (&third.id, "corrected", true)
    );

    soon(conversation.go_on(third.id.clone())).await.expect("continued");
    let (fourth, _) = answer(&mut updates).await;
    assert_eq!(fourth.question, Some(third.id));

    let siblings = server.library().siblings(&question).await.expect("siblings");
    assert_eq!(siblings.len(), 2);
}

#[tokio::test]
async fn what_is_not_there_is_refused() {
    let server = Served::start().await;
    let (client, conversation, _updates) = server.conversation().await;
    let nowhere = switchboard_client::alicia::Id::new("am_nowhere").expect("an id");
    let refused = soon(conversation.regenerate(nowhere.clone())).await;
    let Err(ClientError::Request(RequestError::Refused(error))) = refused else { panic!("{refused:?}") };
    assert_eq!(error.code, 203);
    let refused = soon(conversation.vote(nowhere, Vote::Up)).await;
    assert!(matches!(refused, Err(ClientError::Request(RequestError::Refused(_)))), "{refused:?}");
    let unknown = switchboard_client::alicia::Id::new("ac_nowhere").expect("an id");
    let refused = soon(client.conversation(Join::existing(unknown))).await;
    assert!(matches!(refused, Err(ClientError::Ended(_))), "{refused:?}");
}

#[tokio::test]
async fn another_device_sees_the_same_conversation() {
    let server = Served::start().await;
    let (_first, here, mut at_first) = server.conversation().await;
    let second = server.client().await;
    let join = Join::existing(here.id().clone());
    let (_there, mut at_second) = soon(second.conversation(join)).await.expect("joined");
    let question = soon(here.say("echo hello")).await.expect("said");
    let seen = until(&mut at_second, |event| matches!(event, ConversationEvent::Question(_))).await;
    assert!(matches!(seen, ConversationEvent::Question(message) if message.id == question));
    let (theirs, _) = answer(&mut at_second).await;
    let (ours, _) = answer(&mut at_first).await;
    assert_eq!(ours, theirs);
}
