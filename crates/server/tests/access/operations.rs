//! Everything that a client can say on a WebSocket and that names something, said by those whose it is not.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_acolyte::{ClientMessage, TaskId};
use switchboard_aip::ClientMessageType;
use switchboard_alicia::{MessageType, Side};
use switchboard_asp::message::{HelloOp, Kind, Mode};
use switchboard_core::TurnId;

use crate::line::{Line, SILENCE, Speech};
use crate::scrub::scrubbed;
use crate::world::{MARK, Names, Who, World, hello};

/// What a row is about, in the words of its protocol.
type Word = &'static str;

/// One thing to say.
pub(crate) struct Operation {
    /// The kind of the message.
    word: Word,
    /// The message, about these things.
    says: fn(&Names) -> Value,
    /// How many messages answer it when it is about something that is not there, or is somebody else's.
    answers: usize,
    /// What an observer is answered, if that is something else.
    observer: Observer,
}

/// What an observer is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Observer {
    /// The same as any stranger.
    Stranger,
    /// This many messages, which say no.
    Refused(usize),
    /// What there is to see, in at least this many messages.
    Watches(usize),
}

use Observer::{Refused, Stranger, Watches};

const fn row(word: Word, says: fn(&Names) -> Value, answers: usize) -> Operation {
    Operation { word, says, answers, observer: Stranger }
}

const fn seen(word: Word, says: fn(&Names) -> Value, answers: usize, observer: Observer) -> Operation {
    Operation { word, says, answers, observer }
}

/// A protocol, and everything that can be said in it.
pub(crate) struct Table {
    speech: Speech,
    path: &'static str,
    /// What has to be said first.
    opening: fn(Who, &Names) -> Option<Value>,
    /// Which message is the last that answers it.
    opened: fn(&Value) -> bool,
    rows: &'static [Operation],
    /// Every word of a client, as the code knows them.
    words: fn() -> BTreeSet<String>,
}

pub(crate) const TABLES: &[Table] = &[
    Table {
        speech: Speech::Asp,
        path: "/v1/agent-socket",
        opening: |_, _| Some(hello()),
        // An accept, and then the tools.
        opened: |heard| heard["op"] == 5,
        rows: ASP,
        words: asp_words,
    },
    Table {
        speech: Speech::Acolyte,
        path: "/v1/rpc",
        opening: |_, _| {
            let offer = json!({ "protocol_version": "1", "capabilities": "task.resume" });
            Some(json!({ "id": "rpc_hello", "type": "status.get", "payload": offer }))
        },
        opened: |heard| heard["id"] == "rpc_hello",
        rows: ACOLYTE,
        words: acolyte_words,
    },
    Table {
        speech: Speech::Aip,
        path: "/ws",
        opening: |who, _| {
            let name = format!("device-of-{who:?}");
            Some(json!({ "type": "register", "status": "ok", "client_id": name, "client_type": "device" }))
        },
        opened: |heard| heard["type"] == "heartbeat",
        rows: AIP,
        words: aip_words,
    },
    Table {
        speech: Speech::Aip,
        path: "/ws",
        opening: |_, _| None,
        opened: |_| true,
        rows: AIP_FIRST,
        words: aip_words,
    },
    Table {
        speech: Speech::Alicia,
        path: "/api/v1/ws",
        opening: |_, _| None,
        opened: |_| true,
        rows: ALICIA,
        words: alicia_words,
    },
    Table {
        speech: Speech::Alicia,
        path: "/api/v1/ws",
        opening: |_, names| Some(envelope(12, names, json!({ "lastSequenceSeen": 0 }))),
        // What a conversation offers comes last; whoever has no part in it is refused.
        opened: |heard| heard["type"] == 31 || heard["type"] == 1,
        rows: ALICIA_JOINED,
        words: alicia_words,
    },
];

fn asp_words() -> BTreeSet<String> {
    let hello = HelloOp::NAMES.iter().map(|name| format!("HELLO {name}"));
    let invoke = Kind::NAMES.iter().map(|name| format!("INVOKE {name}"));
    let interrupt = Mode::NAMES.iter().map(|name| format!("INTERRUPT {name}"));
    hello.chain(invoke).chain(interrupt).chain(["ERROR".to_owned()]).collect()
}

fn invoke(id: u16, payload: Value) -> Value {
    json!({ "op": 2, "id": id, "payload": payload })
}

fn interrupt(mode: &str) -> Value {
    json!({ "op": 4, "id": 1, "payload": { "mode": mode, "bytes": 100 } })
}

const ASP: &[Operation] = &[
    // An id that is not one's own to use is a name like any other, for a session of one's own.
    seen(
        "INVOKE chat",
        |names| invoke(21, json!({ "kind": "chat", "input": "nothing", "session": names.session })),
        2,
        Refused(1),
    ),
    seen(
        "INVOKE tool",
        |names| {
            let args = json!({ "name": "x" });
            invoke(22, json!({ "kind": "tool", "tool": "greet", "args": args, "session": names.session }))
        },
        2,
        Refused(1),
    ),
    seen(
        "INVOKE step",
        |names| {
            let step = json!({ "goal": "fail", "state": {} });
            invoke(23, json!({ "kind": "step", "step": step, "session": names.session }))
        },
        2,
        Refused(1),
    ),
    row(
        "INVOKE result",
        |names| {
            invoke(
                24,
                json!({ "kind": "result", "parent": 1, "call_id": names.call, "ok": true, "output": 1 }),
            )
        },
        1,
    ),
    row(
        "INVOKE reply",
        |names| invoke(25, json!({ "kind": "reply", "parent": 1, "ask_id": names.call, "text": "yes" })),
        1,
    ),
    row("INVOKE list", |names| invoke(26, json!({ "kind": "list", "session": names.session })), 1),
    seen(
        "INVOKE watch",
        |names| invoke(27, json!({ "kind": "watch", "session": names.session })),
        1,
        Watches(1),
    ),
    seen(
        "INVOKE watch",
        |names| invoke(28, json!({ "kind": "watch", "session": names.session, "turn": names.turn })),
        1,
        Watches(1),
    ),
    row("INTERRUPT cancel", |_| interrupt("cancel"), 0),
    row("INTERRUPT pause", |_| interrupt("pause"), 0),
    row("INTERRUPT resume", |_| interrupt("resume"), 0),
    row("INTERRUPT credit", |_| interrupt("credit"), 0),
    row("ERROR", |_| json!({ "op": 6, "id": 1, "payload": { "code": 2900, "name": "x", "msg": "x" } }), 0),
    row("HELLO ping", |_| json!({ "op": 1, "id": 0, "payload": { "op": "ping", "nonce": "x" } }), 1),
    row("HELLO auth", |_| json!({ "op": 1, "id": 0, "payload": { "op": "auth", "token": "x" } }), 1),
    // What ends the connection comes last. A connection of somebody else's cannot be taken over by its name.
    row(
        "HELLO hello",
        |names| {
            let resume = json!({ "cid": names.cid, "token": "AAAAAAAAAAAAAAAAAAAAAA", "next": {} });
            json!({ "op": 1, "id": 0, "payload": { "features": ["resume"], "enc": ["json"], "resume": resume } })
        },
        1,
    ),
    row("HELLO bye", |_| json!({ "op": 1, "id": 0, "payload": { "op": "bye" } }), 1),
];

fn acolyte_words() -> BTreeSet<String> {
    // A new message is one that the compiler asks about here.
    let word = |message: &ClientMessage| match message {
        ClientMessage::StatusGet(_) => "status.get",
        ClientMessage::ChatStart(_) => "chat.start",
        ClientMessage::ChatAbort { .. } => "chat.abort",
        ClientMessage::TaskStatus { .. } => "task.status",
        ClientMessage::ChatAttach(_) => "chat.attach",
    };
    let _ = word;
    ["status.get", "chat.start", "chat.abort", "task.status", "chat.attach"].map(str::to_owned).into()
}

/// What Acolyte calls a session: a name for one of one's own.
pub(crate) fn sess(names: &Names) -> String {
    names.session.replace("ses_", "sess_")
}

fn task_of(names: &Names) -> String {
    TaskId::of(&TurnId::from(names.turn.as_str())).to_string()
}

const ACOLYTE: &[Operation] = &[
    row("status.get", |_| json!({ "id": "rpc_1", "type": "status.get" }), 1),
    row(
        "chat.start",
        |names| {
            let session = format!("{}2", sess(names));
            let request = json!({ "message": "nothing", "history": [], "model": "m", "sessionId": session });
            json!({ "id": "rpc_2", "type": "chat.start", "payload": { "request": request } })
        },
        6,
    ),
    row(
        "chat.abort",
        |_| json!({ "id": "rpc_3", "type": "chat.abort", "payload": { "requestId": "rpc_1" } }),
        1,
    ),
    row(
        "task.status",
        |names| {
            let payload = json!({ "taskId": task_of(names), "sessionId": names.session });
            json!({ "id": "rpc_4", "type": "task.status", "payload": payload })
        },
        1,
    ),
    row(
        "task.status",
        |names| json!({ "id": "rpc_5", "type": "task.status", "payload": { "taskId": task_of(names) } }),
        1,
    ),
    seen(
        "chat.attach",
        |names| {
            let payload = json!({ "taskId": task_of(names), "sessionId": names.session });
            json!({ "id": "rpc_6", "type": "chat.attach", "payload": payload })
        },
        1,
        Watches(1),
    ),
    seen(
        "chat.attach",
        |names| json!({ "id": "rpc_7", "type": "chat.attach", "payload": { "sessionId": names.session } }),
        1,
        Watches(1),
    ),
];

fn aip_words() -> BTreeSet<String> {
    ClientMessageType::ALL.iter().map(|kind| kind.as_str().to_owned()).collect()
}

const AIP: &[Operation] = &[
    row("heartbeat", |_| json!({ "type": "heartbeat", "status": "ok" }), 1),
    // The canonical name of a session: one that was shared with somebody would be joined.
    seen(
        "task",
        |names| json!({ "type": "task", "status": "continue", "session_id": names.session, "request": "nothing" }),
        2,
        Refused(2),
    ),
    row(
        "task",
        |names| {
            json!({ "type": "task", "status": "continue", "session_id": "s", "request": "nothing",
                "target_id": names.device })
        },
        1,
    ),
    row(
        "command_results",
        |names| {
            json!({ "type": "command_results", "status": "continue", "session_id": names.task,
                "prev_response_id": names.call, "action_results": [] })
        },
        0,
    ),
    row(
        "task_end",
        |names| json!({ "type": "task_end", "status": "failed", "session_id": names.task, "error": "stop" }),
        0,
    ),
    row(
        "error",
        |names| json!({ "type": "error", "status": "error", "session_id": names.task, "error": "stop" }),
        1,
    ),
    row(
        "device_info_request",
        |names| {
            json!({ "type": "device_info_request", "status": "ok", "client_type": "constellation",
                "target_id": names.device, "request_id": "q" })
        },
        1,
    ),
    row(
        "device_info_response",
        |names| json!({ "type": "device_info_response", "status": "ok", "request_id": names.call, "metadata": {} }),
        0,
    ),
];

/// What can be said first on a connection.
const AIP_FIRST: &[Operation] = &[
    row(
        "register",
        |names| json!({ "type": "register", "status": "ok", "client_id": names.device, "client_type": "device" }),
        1,
    ),
    row(
        "register",
        |names| {
            json!({ "type": "register", "status": "ok", "client_id": "con", "client_type": "constellation",
                "target_id": names.device })
        },
        1,
    ),
];

fn alicia_words() -> BTreeSet<String> {
    MessageType::ALL
        .iter()
        .filter(|kind| kind.is_sent_by(Side::Client))
        .map(|kind| kind.name().to_owned())
        .collect()
}

fn envelope(kind: u64, names: &Names, body: Value) -> Value {
    json!({ "type": kind, "conversation": names.conversation, "body": body })
}

const ALICIA: &[Operation] = &[
    row("UserMessage", |names| envelope(2, names, json!({ "id": "am_9", "content": "nothing" })), 2),
    row(
        "AudioChunk",
        |names| {
            envelope(
                4,
                names,
                json!({ "id": "aa_9", "format": "pcm", "sequence": 0, "durationMs": 1, "data": "" }),
            )
        },
        1,
    ),
    row(
        "ToolUseResult",
        |names| envelope(7, names, json!({ "id": names.call, "success": true, "result": 1 })),
        2,
    ),
    row(
        "Acknowledgement",
        |names| envelope(8, names, json!({ "acknowledgedStanzaId": -1, "success": true })),
        0,
    ),
    row("ControlStop", |names| envelope(10, names, json!({ "targetId": names.message })), 2),
    row(
        "ControlVariation",
        |names| envelope(11, names, json!({ "targetId": names.message, "mode": "edit", "newContent": "x" })),
        2,
    ),
    row("ErrorMessage", |names| envelope(1, names, json!({ "id": "ae_9", "code": 1, "message": "x" })), 0),
    row(
        "Commentary",
        |names| envelope(15, names, json!({ "id": "aucc_9", "messageId": names.message, "content": "x" })),
        2,
    ),
    row(
        "SyncRequest",
        |names| {
            let one = json!({ "localId": "local_9", "sequenceNumber": 1, "role": "user", "contents": "x",
                "createdAt": "2026-01-01T00:00:00Z" });
            envelope(17, names, json!({ "messages": [one] }))
        },
        1,
    ),
    row(
        "Feedback",
        |names| {
            envelope(
                20,
                names,
                json!({ "id": "av_9", "messageId": names.message, "targetType": "message",
                "targetId": names.message, "vote": "up", "timestamp": 1 }),
            )
        },
        1,
    ),
    row(
        "UserNote",
        |names| {
            envelope(
                22,
                names,
                json!({ "id": "an_9", "messageId": names.message, "content": "x",
                "category": "general", "action": "create", "timestamp": 1 }),
            )
        },
        1,
    ),
    row(
        "MemoryAction",
        |names| {
            let memory = json!({ "content": "x", "category": "fact" });
            json!({ "type": 24, "conversation": "", "body": { "id": names.memory, "action": "delete",
                "memory": memory, "timestamp": 1 } })
        },
        1,
    ),
    row(
        "DimensionPreference",
        |names| {
            envelope(29, names, json!({ "weights": { "quality": 1 }, "preset": "speed", "timestamp": 1 }))
        },
        1,
    ),
    row("EliteSelect", |names| envelope(30, names, json!({ "eliteId": "x", "timestamp": 1 })), 1),
    row("Unsubscribe", |names| envelope(41, names, json!({})), 1),
    seen("Configuration", |names| envelope(12, names, json!({ "lastSequenceSeen": 0 })), 1, Watches(2)),
    seen("Subscribe", |names| envelope(40, names, json!({})), 1, Watches(1)),
];

/// What can be said by whoever has come into a conversation.
const ALICIA_JOINED: &[Operation] = &[
    seen(
        "UserMessage",
        |names| envelope(2, names, json!({ "id": "am_8", "content": "nothing" })),
        2,
        Refused(2),
    ),
    seen(
        "ToolUseResult",
        |names| envelope(7, names, json!({ "id": names.call, "success": true })),
        2,
        Refused(2),
    ),
    seen("ControlStop", |names| envelope(10, names, json!({})), 2, Refused(2)),
    seen(
        "ControlVariation",
        |names| envelope(11, names, json!({ "targetId": names.message, "mode": "edit", "newContent": "x" })),
        2,
        Refused(2),
    ),
    seen(
        "Commentary",
        |names| envelope(15, names, json!({ "id": "aucc_8", "messageId": names.message, "content": "x" })),
        2,
        Refused(2),
    ),
    seen(
        "SyncRequest",
        |names| {
            let one = json!({ "localId": "local_8", "sequenceNumber": 1, "role": "user", "contents": "x",
                "createdAt": "2026-01-01T00:00:00Z" });
            envelope(17, names, json!({ "messages": [one] }))
        },
        1,
        Refused(1),
    ),
    seen(
        "Feedback",
        |names| {
            envelope(
                20,
                names,
                json!({ "id": "av_8", "messageId": names.message, "targetType": "message",
                "targetId": names.message, "vote": "up", "timestamp": 1 }),
            )
        },
        1,
        Refused(1),
    ),
    seen(
        "DimensionPreference",
        |names| {
            envelope(29, names, json!({ "weights": { "quality": 1 }, "preset": "speed", "timestamp": 1 }))
        },
        2,
        Refused(1),
    ),
];

/// Whether every word that a client has is in the tables of its protocol, and no other.
pub(crate) fn check_words() -> Vec<String> {
    let mut wrong = Vec::new();
    for table in TABLES {
        let same = TABLES.iter().filter(|other| other.speech == table.speech);
        let said: BTreeSet<String> =
            same.flat_map(|table| table.rows).map(|row| row.word.to_owned()).collect();
        let known = (table.words)();
        wrong.extend(known.symmetric_difference(&said).map(|word| format!("{:?}: {word}", table.speech)));
    }
    wrong
}

impl Table {
    async fn line(&self, world: &World, who: Who, names: &Names) -> Line {
        let key = world.keys.of(who);
        for _ in 0..500 {
            let mut line = Line::open(world.address(), self.path, self.speech, key, &[]).await.unwrap();
            let Some(message) = (self.opening)(who, names) else { return line };
            line.say(&message).await;
            let answer = line.hear_until(|heard| (self.opened)(heard) || !heard["closed"].is_null()).await;
            if answer["closed"].is_null() {
                return line;
            }
            // The one before has hung up, but the server may not have noticed yet whose name is free again.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{who:?} is not let in at {}", self.path);
    }

    /// What somebody is told about these things, each on a connection of its own: nothing is left of what was
    /// said before.
    async fn told(&self, world: &World, who: Who, row: &Operation, names: &Names, answers: usize) -> String {
        let mut line = self.line(world, who, names).await;
        let mut heard = line.ask(&(row.says)(names), answers).await;
        // A turn of the connection before may still be ending; that one had to wait for it says nothing.
        heard.retain(|told| told["payload"]["state"] != "queued");
        scrubbed(&json!(heard).to_string(), names)
    }

    /// Says everything as a stranger and as an observer; what is wrong with the answers.
    pub(crate) async fn check(&self, world: &World) -> Vec<String> {
        let mut wrong = Vec::new();
        let nobody = world.names.of_nobody();
        for row in self.rows {
            let place = format!("{:?} {}", self.speech, row.word);
            let foreign = self.told(world, Who::Foreign, row, &world.names, row.answers).await;
            let unknown = self.told(world, Who::Foreign, row, &nobody, row.answers).await;
            if foreign != unknown && !is_taken(self.speech, row.word, &foreign) {
                wrong.push(format!("{place}: a stranger can tell\n  {foreign}\n  from\n  {unknown}"));
            }
            if foreign.contains(SILENCE) {
                wrong.push(format!("{place}: fewer than {} answers:\n  {foreign}", row.answers));
            }
            if foreign.contains(MARK) {
                wrong.push(format!("{place}: a stranger reads what is Ann's:\n  {foreign}"));
            }
            let answers = match row.observer {
                Stranger => row.answers,
                Refused(answers) | Watches(answers) => answers,
            };
            let told = self.told(world, Who::Observer, row, &world.names, answers).await;
            if told.contains(SILENCE) {
                wrong.push(format!("{place}: an observer hears fewer than {answers} answers:\n  {told}"));
            }
            match row.observer {
                Watches(_) if told == unknown => {
                    wrong.push(format!("{place}: an observer cannot watch:\n  {told}"));
                }
                Refused(_) if !REFUSALS.iter().any(|refusal| told.contains(refusal)) => {
                    wrong.push(format!("{place}: an observer is not refused:\n  {told}"));
                }
                Stranger | Refused(_) | Watches(_) => {}
            }
        }
        wrong
    }
}

/// How protocols say no.
const REFUSALS: [&str; 3] = ["FORBIDDEN", "not permitted", "names no request here"];

/// Whether the reference itself says that a name which is in use is known to be (AIP 6.1 and 9.2): names of live
/// devices are unique in the whole server.
fn is_taken(speech: Speech, word: Word, told: &str) -> bool {
    speech == Speech::Aip && word == "register" && told.contains("already")
}
