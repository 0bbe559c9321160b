//! Votes, notes, memories, remarks and offline messages.

use switchboard_client::alicia::{
    CommentaryType, MemoryActionKind, MemoryCategory, MemoryContent, NoteAction, NoteCategory, Preset, Role,
    SyncMessage, SyncStatus, Vote, Weights, Word,
};
use switchboard_core::Pii;

use crate::support::{Served, answer, soon};

#[tokio::test]
async fn votes_are_counted_and_taken_back() {
    let server = Served::start().await;
    let (_client, conversation, mut updates) = server.conversation().await;
    soon(conversation.say("echo hi")).await.expect("said");
    let (text, _) = answer(&mut updates).await;
    let votes = soon(conversation.vote(text.id.clone(), Vote::Up)).await.expect("voted");
    assert_eq!((votes.aggregates.upvotes, votes.user_vote), (1, Some(Vote::Up)));
    let votes = soon(conversation.vote(text.id.clone(), Vote::Remove)).await.expect("voted");
    assert_eq!((votes.aggregates.upvotes, votes.user_vote), (0, None));
}

#[tokio::test]
async fn notes_remarks_and_weights_are_taken() {
    let server = Served::start().await;
    let (_client, conversation, mut updates) = server.conversation().await;
    let question = soon(conversation.say("echo hi")).await.expect("said");
    answer(&mut updates).await;
    let note = soon(conversation.note(question.clone(), "good", NoteCategory::General)).await.expect("noted");
    let change = conversation.change_note(note.clone(), question.clone(), NoteAction::Update, "better");
    soon(change).await.expect("changed");
    soon(conversation.change_note(note, question.clone(), NoteAction::Delete, "")).await.expect("deleted");
    soon(conversation.remark(Some(question), "nice", Some(CommentaryType::Note))).await.expect("remarked");
    let weights = Weights {
        success_rate: None,
        quality: None,
        efficiency: None,
        robustness: None,
        generalization: None,
        diversity: None,
        innovation: None,
    };
    soon(conversation.weigh(weights, Some(Preset::Speed))).await.expect("weighed");
}

#[tokio::test]
async fn memories_are_made_changed_and_forgotten() {
    let server = Served::start().await;
    let client = server.client().await;
    let content = |text: &str| MemoryContent {
        content: Pii(text.to_owned()),
        category: MemoryCategory::Preference,
        pinned: false,
    };
    let memory = soon(client.remember(content("likes tea"))).await.expect("remembered");
    soon(client.memory(memory.clone(), MemoryActionKind::Pin, None)).await.expect("pinned");
    let update = client.memory(memory.clone(), MemoryActionKind::Update, Some(content("likes coffee")));
    soon(update).await.expect("changed");
    let memories = server.library().memories().await.expect("memories");
    assert_eq!(memories.len(), 1);
    assert_eq!(memories[0].content, "likes coffee");
    soon(client.memory(memory.clone(), MemoryActionKind::Delete, None)).await.expect("forgotten");
    assert!(server.library().memories().await.expect("memories").is_empty());
    assert!(soon(client.memory(memory, MemoryActionKind::Pin, None)).await.is_err());
}

#[tokio::test]
async fn offline_messages_are_handed_in_once() {
    let server = Served::start().await;
    let (_client, conversation, _updates) = server.conversation().await;
    let message = |local: &str, text: &str| SyncMessage {
        local_id: local.to_owned(),
        sequence_number: 1,
        previous_id: None,
        role: Word::Known(Role::User),
        contents: Pii(text.to_owned()),
        created_at: "2026-01-01T00:00:00Z".to_owned(),
        updated_at: None,
    };
    let first = soon(conversation.sync(vec![message("local_1", "a"), message("local_2", "b")])).await;
    let first = first.expect("synced").synced_messages;
    assert!(first.iter().all(|one| one.status == Word::Known(SyncStatus::Synced)));
    let again = soon(conversation.sync(vec![message("local_1", "a"), message("local_2", "c")])).await;
    let again = again.expect("synced").synced_messages;
    assert_eq!(again[0].server_id, first[0].server_id);
    assert_eq!(again[1].status, Word::Known(SyncStatus::Conflict));
}
