//! `rebuild`, on what a real server has left behind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::types::Value;
use switchboard_alicia::message::{
    MemoryCategory, MemoryContent, NoteCategory, Role, SyncMessage, Vote, Word,
};
use switchboard_client::alicia::{Client, ClientConfig, Connect, Conversation, Join, Updates};
use switchboard_core::Pii;
use tempfile::TempDir;

use crate::support::{Server, run};

#[test]
fn every_row_comes_about_again() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(
        folder.path(),
        &[
            "--set",
            "agent=story",
            "--set",
            "agents.story.kind=script",
            "--set",
            "agents.story.builtin=conformance",
        ],
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(converse(&server.address));
    server.run(&["chat", "--once", "echo and another protocol"]).ok();
    let data = folder.path().join("data");
    let rebuild = || run(&["rebuild", "--data-dir", data.to_str().unwrap()]);
    let busy = rebuild();
    assert_eq!(busy.code, 1, "{busy:?}");
    assert!(busy.err.contains("is in use by process"), "{}", busy.err);
    server.stop();

    let file = data.join("switchboard.db");
    let before = tables(&file);
    let kept =
        ["sessions", "turns", "messages", "alicia_conversations", "alicia_messages", "alicia_sentences"];
    let beside =
        ["alicia_tool_uses", "alicia_reasoning_steps", "alicia_votes", "alicia_notes", "alicia_memory"];
    for table in
        kept.into_iter().chain(beside).chain(["alicia_server_log", "alicia_session_stats", "alicia_meta"])
    {
        assert!(!before[table].is_empty(), "there is something in {table}");
    }
    let damaged = Connection::open(&file).unwrap();
    damaged
        .execute_batch(
            "DROP TABLE alicia_messages;
             DROP TABLE alicia_server_log;
             DELETE FROM alicia_memory;
             UPDATE alicia_sentences SET text = 'wrong';
             DELETE FROM messages;
             INSERT INTO alicia_notes (conversation_id, id) VALUES ('ac_none', 'an_none');
             DELETE FROM turns;",
        )
        .unwrap();
    drop(damaged);
    let rebuilt = rebuild().ok();
    let after = tables(&file);
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (table, rows) in &before {
        assert!(*rows == after[table], "{table}: {rows:?} is now {:?}", after[table]);
    }
    let derived = |name: &str| name.starts_with("alicia_") && !name.contains("_words");
    let core = ["sessions", "turns", "messages", "requests", "devices"];
    let rows: usize = before
        .iter()
        .filter(|(name, _)| derived(name) || core.contains(&name.as_str()))
        .map(|(_, rows)| rows.len())
        .sum();
    let sessions = before["sessions"].len();
    assert!(rebuilt.starts_with(&format!("rebuilt {rows} rows of {sessions} sessions in ")), "{rebuilt}");
    // The server goes on with what is there now.
    let server = Server::start(folder.path(), &[]);
    let listed = server.run(&["sessions", "list", "--json"]).ok();
    assert!(listed.contains("ac_"), "{listed}");
}

#[test]
fn what_cannot_be_rebuilt_is_said() {
    let folder = TempDir::new().unwrap();
    let missing = run(&["rebuild", "--data-dir", folder.path().to_str().unwrap()]);
    assert_eq!(missing.code, 2, "{missing:?}");
    assert!(missing.err.contains("there is no log at"), "{}", missing.err);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "and none is made");
    let memory = run(&["rebuild", "--set", "store.kind=memory"]);
    assert_eq!(memory.code, 2, "{memory:?}");
    let foreign = folder.path().join("switchboard.db");
    std::fs::write(&foreign, "something else entirely, and longer than the first bytes of a file").unwrap();
    let foreign = run(&["rebuild", "--data-dir", folder.path().to_str().unwrap()]);
    assert_eq!(foreign.code, 1, "{foreign:?}");
}

/// Conversations with everything that leaves rows behind.
async fn converse(address: &str) {
    let config = ClientConfig { device: Some("desktop".into()), ..ClientConfig::default() };
    let options = Connect::new(format!("http://{address}")).config(config);
    let client = Client::connect(options).await.unwrap();
    let (conversation, mut updates) = client.conversation(Join::create()).await.unwrap();
    ask(&conversation, &mut updates, "words One is here. Two is there.\n\nThree!").await;
    ask(&conversation, &mut updates, "reason 2").await;
    ask(&conversation, &mut updates, "tool worker 1").await;
    let question = conversation.say("echo first").await.unwrap();
    updates.answer_to(&question).await.unwrap();
    conversation.regenerate(question.clone()).await.unwrap();
    updates.answer_to(&question).await.unwrap();
    conversation.vote(question.clone(), Vote::Up).await.unwrap();
    conversation.note(question.clone(), "a note", NoteCategory::General).await.unwrap();
    conversation.remark(Some(question), "a remark", None).await.unwrap();
    let memory = MemoryContent {
        content: Pii("likes tea".into()),
        category: MemoryCategory::Preference,
        pinned: false,
    };
    client.remember(memory).await.unwrap();
    let offline = SyncMessage {
        local_id: "local_1".into(),
        sequence_number: 1,
        previous_id: None,
        role: Word::Known(Role::User),
        contents: Pii("offline".into()),
        created_at: "2026-01-01T00:00:00Z".into(),
        updated_at: None,
    };
    conversation.sync(vec![offline]).await.unwrap();
    let (other, mut updates) = client.conversation(Join::create()).await.unwrap();
    ask(&other, &mut updates, "echo elsewhere").await;
    let failing = other.say("fail broken").await.unwrap();
    let _ = updates.answer_to(&failing).await;
    client.close().await;
}

async fn ask(conversation: &Conversation, updates: &mut Updates, text: &str) {
    let question = conversation.say(text).await.unwrap();
    let answered = tokio::time::timeout(Duration::from_secs(30), updates.answer_to(&question)).await;
    answered.expect("an answer in time").unwrap();
}

/// Every row of every table that can be asked, in some order that is always the same.
fn tables(file: &Path) -> BTreeMap<String, Vec<String>> {
    let file: PathBuf = file.into();
    let connection = Connection::open(file).unwrap();
    let mut statement = connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").unwrap();
    let names: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    // What an index of words is made of depends on the order in which it grew.
    let asked = names.into_iter().filter(|name| !name.contains("_words_") && !name.starts_with("sqlite_"));
    let rows = |name: &str| {
        let mut statement = connection.prepare(&format!("SELECT * FROM {name}")).unwrap();
        let columns = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| {
            let cells: Vec<Value> = (0..columns).map(|column| row.get(column)).collect::<Result<_, _>>()?;
            Ok(format!("{cells:?}"))
        };
        let mut rows: Vec<String> = statement.query_map([], row).unwrap().map(Result::unwrap).collect();
        rows.sort();
        rows
    };
    asked.map(|name| (name.clone(), rows(&name))).collect()
}
