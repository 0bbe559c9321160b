//! What is done beside the turns.

use crate::message::{
    Aggregates, CommentaryType, EliteOptions, FeedbackConfirmation, MemoryActionKind, MemoryCategory,
    MemoryConfirmation, MemoryContent, NoteCategory, NoteConfirmation, Preset, Role, SessionStats,
    SyncMessage, SyncResponse, TargetType, Vote, Weights,
};

use super::*;

fn settled(lab: &mut Lab) -> (RequestKey, Result<Outcome, RequestError>) {
    match lab.events.pop_front() {
        Some(Event::Settled(request, outcome)) => (request, outcome),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_vote_is_confirmed_by_all_votes() {
    let (mut lab, key) = Lab::joined();
    let request = lab.client.vote(key, Ballot::on(id("am_a"), Vote::Up), lab.now).unwrap();
    lab.drain();
    let Body::Feedback(vote) = lab.take().body else { panic!() };
    assert_eq!((vote.target_type, &vote.target_id), (TargetType::Message, &id("am_a")));
    let votes = FeedbackConfirmation {
        feedback_id: vote.id,
        target_type: TargetType::Message,
        target_id: id("am_a"),
        aggregates: Aggregates { upvotes: 1, downvotes: 0, special_votes: None },
        user_vote: Some(Vote::Up),
    };
    lab.hear(0, votes.clone());
    assert_eq!(settled(&mut lab), (request, Ok(Outcome::Votes(votes))));
}

#[test]
fn notes_and_memories_belong_to_no_conversation() {
    let mut lab = Lab::new();
    let (request, note) = lab.client.note(id("am_a"), "good", NoteCategory::General, lab.now).unwrap();
    lab.drain();
    let sent = lab.take();
    assert_eq!(sent.conversation_id, None);
    let confirmation = NoteConfirmation { note_id: note, message_id: id("am_a"), success: true };
    lab.hear_in(None, 0, confirmation);
    assert_eq!(settled(&mut lab), (request, Ok(Outcome::Accepted)));

    let memory =
        MemoryContent { content: Pii("tea".to_owned()), category: MemoryCategory::Preference, pinned: false };
    let (create, memory) = lab.client.remember(memory, lab.now).unwrap();
    let pin = lab.client.change_memory(memory.clone(), MemoryActionKind::Pin, None, lab.now).unwrap();
    lab.drain();
    let confirmation = |action, success| MemoryConfirmation {
        memory_id: memory.clone(),
        action: Word::Known(action),
        success,
    };
    lab.hear_in(None, 0, confirmation(MemoryActionKind::Create, true));
    lab.hear_in(None, 0, confirmation(MemoryActionKind::Pin, false));
    assert_eq!(settled(&mut lab), (create, Ok(Outcome::Accepted)));
    assert_eq!(settled(&mut lab), (pin, Err(RequestError::Declined)));
}

#[test]
fn one_batch_of_offline_messages_follows_another() {
    let (mut lab, key) = Lab::joined();
    let batch = |local: &str| {
        vec![SyncMessage {
            local_id: local.to_owned(),
            sequence_number: 1,
            previous_id: None,
            role: Word::Known(Role::User),
            contents: Pii("offline".to_owned()),
            created_at: "2026-01-01T00:00:00Z".to_owned(),
            updated_at: None,
        }]
    };
    let first = lab.client.sync(key, batch("local_1"), lab.now).unwrap();
    let second = lab.client.sync(key, batch("local_2"), lab.now).unwrap();
    lab.drain();
    assert!(matches!(lab.take().body, Body::SyncRequest(_)));
    assert!(lab.sent.is_empty());
    // Cut before the answer: the same again.
    lab.reconnect();
    lab.handshake(0, 0);
    lab.events.clear();
    let response = SyncResponse { synced_messages: Vec::new(), synced_at: "2026-01-01T00:00:00Z".to_owned() };
    for request in [first, second] {
        let Body::SyncRequest(_) = lab.take().body else { panic!() };
        lab.hear(0, response.clone());
        assert_eq!(settled(&mut lab), (request, Ok(Outcome::Synced(response.clone()))));
    }
    lab.nothing();
    let too_many = (0..501).flat_map(|_| batch("local_3")).collect();
    assert!(matches!(lab.client.sync(key, too_many, lab.now), Err(CommandError::Unfit(_))));
}

#[test]
fn remarks_weights_and_elites_are_acknowledged() {
    let (mut lab, key) = Lab::joined();
    let remark = lab.client.remark(key, None, "nice", Some(CommentaryType::Note), lab.now).unwrap();
    let weights = Weights {
        success_rate: None,
        quality: None,
        efficiency: None,
        robustness: None,
        generalization: None,
        diversity: None,
        innovation: None,
    };
    let weigh = lab.client.weigh(key, weights, Some(Preset::Speed), lab.now).unwrap();
    let choose = lab.client.choose(key, id("pa_1"), lab.now).unwrap();
    lab.drain();
    for (stanza, request) in [(2, remark), (3, weigh), (4, choose)] {
        assert_eq!(lab.take().stanza_id, stanza);
        lab.hear(0, ack(stanza));
        assert_eq!(settled(&mut lab), (request, Ok(Outcome::Accepted)));
    }
    lab.hear(0, EliteOptions { elites: Vec::new(), current_elite_id: Some(id("pa_1")), timestamp: 1 });
    assert!(matches!(lab.next(), ConversationEvent::Elites(_)));
    let stats = SessionStats { message_count: 2, tool_call_count: 0, memories_used: 0, session_duration: 9 };
    lab.hear(0, stats.clone());
    assert_eq!(lab.next(), ConversationEvent::Stats(stats));
}

#[test]
fn content_is_in_no_debug_output() {
    let (mut lab, key) = Lab::joined();
    lab.say(key, "hunter2");
    lab.hear(-1, start("am_a", "am_q"));
    lab.hear(-2, sentence("am_a", 1, "hunter2"));
    let shown = format!("{:?} {:?} {:?}", lab.client, lab.sent, lab.events);
    assert!(!shown.contains("hunter2"), "{shown}");
}
