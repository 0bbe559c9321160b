//! What existing web clients of the lite profile need: AL-111 to AL-113, AL-115, AL-118, AL-119.

use serde_json::{Value, json};
use switchboard_core::model::FailureKind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::device::{
    ASSISTANT, ERROR, PATIENCE, REASONING, REQUEST, RESULT, SENTENCE, START, STATS, SUBSCRIBE, SUBSCRIBED,
    TRACE, USER,
};
use crate::lite::{COMPLETE, GENERATE, Lite};
use crate::pack::{pack, pack_map};
use crate::stage::Stage;
use crate::support::{ANN, BOB};

const VOICE_JOIN: u64 = 51;
const VOICE_JOINED: u64 = 52;

/// Ann's request.
async fn ann(stage: &Stage, request: &str, body: Value) -> (u16, Value) {
    stage.http(request, ANN, &body).await
}

#[tokio::test]
async fn al_111_a_trace_names_the_answer_that_it_helped() {
    let mut stage = Stage::start(&[]).await;
    let (mut full, conversation) = stage.begin().await;
    let mut lite = Lite::subscribe(&stage, &conversation).await;
    lite.send(USER, json!({ "content": "what do I drink?" })).await;
    let scene = stage.scenes.next().await;
    scene.remember("amem_1", "likes tea", 0.75).await;
    scene.answer("Tea.").await;
    let [user, start, trace, ..] = lite.expect([USER, START, TRACE, SENTENCE, ASSISTANT, COMPLETE]).await;
    assert_eq!(trace["messageId"], start["messageId"], "and not the question");
    // A second answer to the same question has traces of its own.
    lite.send(GENERATE, json!({ "messageId": start["messageId"], "requestType": "regenerate" })).await;
    let scene = stage.scenes.next().await;
    scene.remember("amem_1", "likes tea", 0.75).await;
    scene.answer("Still tea.").await;
    let [again, trace, ..] = lite.expect([START, TRACE, SENTENCE, ASSISTANT, COMPLETE]).await;
    assert_ne!(again["messageId"], start["messageId"]);
    assert_eq!(trace["messageId"], again["messageId"]);
    // The full profile goes on to name the question.
    let told = full.until(|envelope| envelope.kind == STATS).await;
    let trace = told.iter().find(|envelope| envelope.kind == TRACE).expect("a trace");
    assert_eq!(trace.body["messageId"], user["id"]);
}

#[tokio::test]
async fn al_112_messages_over_http_have_both_spellings() {
    let mut stage = Stage::stored(&[]).await;
    let (_full, conversation) = stage.begin().await;
    let path = format!("/api/v1/conversations/{conversation}/messages");
    let (status, posted) = ann(&stage, &format!("POST {path}"), json!({ "content": "hello" })).await;
    assert_eq!(status, 202, "{posted}");
    let both = |row: &Value, text: &str, lite: &str, full: &str, branch: u64| {
        assert_eq!((&row["content"], &row["contents"]), (&json!(text), &json!(text)), "{row}");
        assert_eq!((&row["status"], &row["completion_status"]), (&json!(lite), &json!(full)), "{row}");
        assert_eq!(row["branch_index"], json!(branch), "{row}");
    };
    both(&posted, "hello", "completed", "completed", 0);
    let scene = stage.scenes.next().await;
    scene.say("Half of it. And").await;
    let (_, list) = ann(&stage, &format!("GET {path}?all=true"), Value::Null).await;
    let answer = &list["messages"][1];
    assert_eq!((&answer["status"], &answer["completion_status"]), (&json!("streaming"), &json!("streaming")));
    scene.fail(FailureKind::ModelUnavailable, "it broke").await;
    let mut lite = Lite::subscribe(&stage, &conversation).await;
    lite.send(GENERATE, json!({ "messageId": posted["id"], "requestType": "regenerate" })).await;
    stage.scenes.next().await.answer("Hi.").await;
    lite.expect([START, SENTENCE, ASSISTANT, COMPLETE]).await;
    let (_, list) = ann(&stage, &format!("GET {path}?all=true"), Value::Null).await;
    let rows = list["messages"].as_array().unwrap();
    both(&rows[0], "hello", "completed", "completed", 0);
    both(&rows[1], "Half of it. And", "error", "failed", 0);
    both(&rows[2], "Hi.", "completed", "completed", 1);
    let siblings = format!("GET /api/v1/messages/{}/siblings", rows[2]["id"].as_str().unwrap());
    let (_, found) = ann(&stage, &siblings, Value::Null).await;
    assert_eq!(found["siblings"], json!([rows[1], rows[2]]));
    let (_, path) = ann(&stage, &format!("GET {path}"), Value::Null).await;
    assert_eq!(path["messages"], json!([rows[0], rows[2]]));
}

/// Ann's POST of a message whose reply is so long that it cannot be written before it is read.
async fn post_unread(stage: &Stage, conversation: &str, content: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    let mut stream = socket.connect(stage.address).await.unwrap();
    let body = json!({ "content": content }).to_string();
    let head = format!(
        "POST /api/v1/conversations/{conversation}/messages HTTP/1.1\r\nHost: {}\r\n\
         Authorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        stage.address,
        ANN.unwrap(),
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn al_113_nothing_of_an_answer_comes_before_the_reply_of_the_post_is_written() {
    let settings = [
        "alicia.limits.content=8388608",
        "alicia.limits.http_body=33554432",
        "alicia.limits.reply_hold_ms=60000",
    ];
    let mut stage = Stage::start(&settings).await;
    let (mut full, conversation) = stage.begin().await;
    let mut lite = Lite::subscribe(&stage, &conversation).await;
    // Quotes take two bytes each as JSON, and the text is in the reply twice.
    let mut post = post_unread(&stage, &conversation, &"\"".repeat(4 << 20)).await;
    let scene = stage.scenes.next().await;
    scene.remember("amem_1", "likes tea", 0.75).await;
    scene.think("Hm.").await;
    scene.tool("clock", Ok(json!({}))).await;
    scene.say("Well. ").await;
    scene.fail(FailureKind::ModelUnavailable, "it broke").await;
    // Everybody else is told at once.
    let told = full.until(|envelope| envelope.kind == STATS).await;
    assert!(told.iter().any(|envelope| envelope.kind == SENTENCE), "{told:?}");
    let [user] = lite.expect([USER]).await;
    lite.quiet().await;
    let mut reply = Vec::new();
    timeout(PATIENCE, post.read_to_end(&mut reply)).await.expect("in time").expect("a reply");
    assert!(reply.starts_with(b"HTTP/1.1 202"), "{}", String::from_utf8_lossy(&reply[..200]));
    let [start, trace, .., error, complete] =
        lite.expect([START, TRACE, REASONING, REQUEST, RESULT, SENTENCE, SENTENCE, ERROR, COMPLETE]).await;
    assert_eq!(start["previousId"], user["id"]);
    assert_eq!(trace["messageId"], start["messageId"]);
    assert_eq!((&error["messageId"], &complete["success"]), (&start["messageId"], &json!(false)));
    // What follows is told as it happens.
    let path = format!("POST /api/v1/conversations/{conversation}/messages");
    assert_eq!(ann(&stage, &path, json!({ "content": "again" })).await.0, 202);
    stage.scenes.next().await.answer("Yes.").await;
    lite.expect([USER, START, SENTENCE, ASSISTANT, COMPLETE]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn al_113_a_reply_that_nobody_fetches_does_not_hold_the_answer_for_ever() {
    let settings = ["alicia.limits.content=8388608", "alicia.limits.http_body=33554432"];
    let mut stage = Stage::start(&settings).await;
    let (_full, conversation) = stage.begin().await;
    let mut lite = Lite::subscribe(&stage, &conversation).await;
    let post = post_unread(&stage, &conversation, &"\"".repeat(4 << 20)).await;
    stage.scenes.next().await.answer("Yes.").await;
    drop(post);
    lite.expect([USER, START, SENTENCE, ASSISTANT, COMPLETE]).await;
}

#[tokio::test]
async fn al_115_a_client_that_is_back_follows_a_hundred_conversations_at_once() {
    let settings = ["alicia.limits.envelopes_per_10_s=60", "alicia.limits.envelopes_burst=60"];
    let stage = Stage::start(&settings).await;
    let mut conversations = Vec::new();
    for _ in 0..100 {
        let (status, made) = ann(&stage, "POST /api/v1/conversations", json!({})).await;
        assert_eq!(status, 201, "{made}");
        conversations.push(made["id"].as_str().unwrap().to_owned());
    }
    let mut device = stage.ann().await;
    for conversation in &conversations {
        device.send_to(conversation, SUBSCRIBE, json!({ "conversationId": conversation })).await;
    }
    for conversation in &conversations {
        let [ack] = device.expect([(0, SUBSCRIBED)]).await;
        assert_eq!(
            (&ack.body["conversationId"], &ack.body["success"]),
            (&json!(conversation), &json!(true)),
            "{ack:?}"
        );
    }
    // All else counts as before.
    for number in 0..200 {
        let note = json!({
            "id": format!("an_{number}"), "messageId": "am_1", "content": "x", "category": "general",
            "action": "create", "timestamp": 1,
        });
        device.send_to(&conversations[0], 22, note).await;
    }
    device.until(|envelope| envelope.kind == ERROR && envelope.body["code"] == json!(505)).await;
}

#[tokio::test]
async fn al_118_voice_is_answered_and_a_name_to_show_is_no_identity() {
    let mut stage = Stage::start(&[]).await;
    let (_full, conversation) = stage.begin().await;
    let mut lite = Lite::subscribe(&stage, &conversation).await;
    let send = async |lite: &mut Lite, kind: u64, body: Value| {
        let bytes = pack_map(&[
            ("conversationId", pack(&json!(lite.conversation))),
            ("type", pack(&json!(kind))),
            ("body", pack(&body)),
            ("user_id", pack(&json!("user_device_5f3a"))),
        ]);
        lite.device.send_bytes(bytes).await;
    };
    let named = json!({ "conversationId": conversation, "userId": "user_device_5f3a" });
    for body in [named, json!({ "conversationId": conversation }), json!({ "userId": 7 })] {
        send(&mut lite, VOICE_JOIN, body).await;
        let [ack] = lite.expect([VOICE_JOINED]).await;
        assert_eq!((&ack["success"], ack["error"].is_string()), (&json!(false), true), "{ack}");
        assert_eq!(ack["conversationId"], json!(conversation));
    }
    send(&mut lite, USER, json!({ "content": "hello" })).await;
    stage.scenes.next().await.answer("Hi.").await;
    lite.expect([USER, START, SENTENCE, ASSISTANT, COMPLETE]).await;
}

/// Whether somebody else sees nothing there, in the words for what does not exist.
async fn is_hidden(stage: &Stage, request: &str) {
    let (status, body) = stage.http(request, BOB, &json!({ "rating": 1 })).await;
    assert_eq!((status, &body["error"]), (404, &json!("not_found")), "{request}: {body}");
}

#[tokio::test]
async fn al_119_what_an_answer_used_is_served_over_http() {
    let mut stage = Stage::stored(&[]).await;
    let (_full, conversation) = stage.begin().await;
    let (status, memory) = ann(&stage, "POST /api/v1/memories", json!({ "content": "likes tea" })).await;
    assert_eq!((status, &memory["content"], &memory["pinned"]), (201, &json!("likes tea"), &json!(false)));
    let memory = memory["id"].as_str().unwrap().to_owned();
    let path = format!("POST /api/v1/conversations/{conversation}/messages");
    let (_, question) = ann(&stage, &path, json!({ "content": "what do I drink?" })).await;
    let scene = stage.scenes.next().await;
    scene.remember(&memory, "likes tea", 0.75).await;
    scene.tool("clock", Ok(json!({ "time": "12:00" }))).await;
    scene.tool("kettle", Err(("tool_error", "it is cold"))).await;
    scene.answer("Yes.").await;
    let (_, list) =
        ann(&stage, &format!("GET /api/v1/conversations/{conversation}/messages"), Value::Null).await;
    let answer = list["messages"][1].clone();
    let id = answer["id"].as_str().unwrap();

    let (_, one) = ann(&stage, &format!("GET /api/v1/messages/{id}"), Value::Null).await;
    assert_eq!(one, answer);

    let (_, used) = ann(&stage, &format!("GET /api/v1/messages/{id}/tool-uses"), Value::Null).await;
    let used = used["tool_uses"].as_array().unwrap();
    assert_eq!((&used[0]["tool_name"], &used[0]["status"]), (&json!("clock"), &json!("success")));
    assert_eq!((&used[0]["result"], &used[0]["arguments"]), (&json!({ "time": "12:00" }), &json!({})));
    assert_eq!((&used[0]["message_id"], &used[1]["status"]), (&answer["id"], &json!("error")));
    assert_eq!(used[1]["error"], json!("execution_error: it is cold"));
    let (_, all) = ann(&stage, "GET /api/v1/tool-uses?limit=1&offset=1", Value::Null).await;
    assert_eq!((&all["total"], &all["limit"], &all["offset"]), (&json!(2), &json!(1), &json!(1)));
    assert_eq!(all["tool_uses"].as_array().unwrap().len(), 1);
    let tool_use = used[0]["id"].as_str().unwrap();
    let (_, one) = ann(&stage, &format!("GET /api/v1/tool-uses/{tool_use}"), Value::Null).await;
    assert_eq!(one, used[0]);

    for message in [id, question["id"].as_str().unwrap()] {
        let (_, traces) =
            ann(&stage, &format!("GET /api/v1/messages/{message}/memory-uses"), Value::Null).await;
        let trace = &traces["memory_uses"][0];
        assert_eq!((&trace["memory_id"], &trace["content"]), (&json!(memory), &json!("likes tea")));
        assert_eq!((&trace["similarity"], &trace["message_id"]), (&json!(0.75), &json!(message)));
    }
    let (_, traces) = ann(&stage, &format!("GET /api/v1/messages/{id}/memory-uses"), Value::Null).await;
    let trace = traces["memory_uses"][0]["id"].as_str().unwrap();

    for (path, key, of) in [
        (format!("/api/v1/messages/{id}/feedback"), "message_id", id),
        (format!("/api/v1/tool-uses/{tool_use}/feedback"), "tool_use_id", tool_use),
        (format!("/api/v1/memory-uses/{trace}/feedback"), "memory_use_id", trace),
    ] {
        let get = format!("GET {path}");
        assert_eq!(ann(&stage, &get, Value::Null).await, (200, Value::Null));
        let (status, given) =
            ann(&stage, &format!("POST {path}"), json!({ "rating": 1, "note": "nice" })).await;
        assert_eq!((status, &given["rating"], &given[key]), (201, &json!(1), &json!(of)), "{given}");
        let (_, kept) = ann(&stage, &get, Value::Null).await;
        assert_eq!((&kept["id"], &kept["note"]), (&given["id"], &json!("nice")));
        let (status, _) = ann(&stage, &format!("POST {path}"), json!({ "rating": -1 })).await;
        assert_eq!(status, 200);
        assert_eq!(ann(&stage, &get, Value::Null).await.1["rating"], json!(-1));
        assert_eq!(ann(&stage, &format!("POST {path}"), json!({ "rating": 0 })).await.0, 200);
        assert_eq!(ann(&stage, &get, Value::Null).await, (200, Value::Null));
        assert_eq!(ann(&stage, &format!("POST {path}"), json!({ "rating": 2 })).await.0, 400);
        is_hidden(&stage, &get).await;
        is_hidden(&stage, &format!("POST {path}")).await;
    }
    for path in [
        format!("GET /api/v1/messages/{id}"),
        format!("GET /api/v1/messages/{id}/tool-uses"),
        format!("GET /api/v1/messages/{id}/memory-uses"),
        format!("GET /api/v1/tool-uses/{tool_use}"),
        format!("GET /api/v1/memories/{memory}"),
        format!("PUT /api/v1/memories/{memory}"),
        format!("DELETE /api/v1/memories/{memory}"),
    ] {
        is_hidden(&stage, &path).await;
    }
    let (_, none) = stage.http("GET /api/v1/tool-uses", BOB, &Value::Null).await;
    assert_eq!(none["total"], json!(0));
    // What is gone with its conversation is gone here as well.
    ann(&stage, &format!("DELETE /api/v1/conversations/{conversation}"), Value::Null).await;
    for path in
        [format!("messages/{id}"), format!("tool-uses/{tool_use}"), format!("messages/{id}/tool-uses")]
    {
        assert_eq!(ann(&stage, &format!("GET /api/v1/{path}"), Value::Null).await.0, 404, "{path}");
    }
    assert_eq!(ann(&stage, "GET /api/v1/tool-uses", Value::Null).await.1["total"], json!(0));
}

#[tokio::test]
async fn al_119_memories_can_be_made_changed_and_deleted_over_http() {
    let stage = Stage::stored(&[]).await;
    let make = async |body: Value| ann(&stage, "POST /api/v1/memories", body).await;
    let (_, made) = make(json!({ "content": "likes tea", "category": "preference" })).await;
    let path = format!("/api/v1/memories/{}", made["id"].as_str().unwrap());
    assert_eq!(ann(&stage, &format!("GET {path}"), Value::Null).await, (200, made.clone()));
    let (status, changed) =
        ann(&stage, &format!("PUT {path}"), json!({ "content": "likes coffee", "pinned": true })).await;
    assert_eq!(
        (status, &changed["content"], &changed["pinned"]),
        (200, &json!("likes coffee"), &json!(true))
    );
    assert_eq!((&changed["id"], &changed["category"]), (&made["id"], &json!("preference")));
    let (_, list) = ann(&stage, "GET /api/v1/memories", Value::Null).await;
    assert_eq!((&list["total"], &list["memories"]), (&json!(1), &json!([changed])));
    assert_eq!(ann(&stage, &format!("DELETE {path}"), Value::Null).await.0, 204);
    assert_eq!(ann(&stage, &format!("GET {path}"), Value::Null).await.0, 404);
    assert_eq!(ann(&stage, &format!("PUT {path}"), json!({ "content": "x" })).await.0, 404);
    assert_eq!(ann(&stage, "GET /api/v1/memories", Value::Null).await.1["total"], json!(0));
    for body in [
        json!({}),
        json!({ "content": " " }),
        json!({ "content": 7 }),
        json!({ "content": "x", "category": "y" }),
    ] {
        let (status, refused) = make(body.clone()).await;
        assert_eq!((status, &refused["code"]), (400, &json!(400)), "{body}: {refused}");
    }
    assert_eq!(make(json!({ "content": "x".repeat(16_385) })).await.0, 413);
}

#[tokio::test]
async fn al_119_preferences_are_kept_for_each_person() {
    let stage = Stage::stored(&[]).await;
    let (status, usual) = ann(&stage, "GET /api/v1/preferences", Value::Null).await;
    assert_eq!((status, &usual["user_id"], &usual["theme"]), (200, &json!("ann"), &json!("system")));
    assert_eq!((&usual["confirm_delete_memory"], &usual["voice_speed"]), (&json!(true), &json!(1.0)));
    let change = json!({ "theme": "dark", "confirm_delete_memory": false, "memory_min_factual": 3 });
    let (status, changed) = ann(&stage, "PATCH /api/v1/preferences", change).await;
    assert_eq!((status, &changed["theme"]), (200, &json!("dark")));
    ann(&stage, "PATCH /api/v1/preferences", json!({ "voice_speed": 1.5 })).await;
    let stage = stage.restart(&[]).await;
    let (_, kept) = ann(&stage, "GET /api/v1/preferences", Value::Null).await;
    assert_eq!((&kept["theme"], &kept["confirm_delete_memory"]), (&json!("dark"), &json!(false)));
    assert_eq!((&kept["voice_speed"], &kept["memory_min_factual"]), (&json!(1.5), &json!(3)));
    let (_, bobs) = stage.http("GET /api/v1/preferences", BOB, &Value::Null).await;
    assert_eq!((&bobs["user_id"], &bobs["theme"]), (&json!("bob"), &json!("system")));
    for body in [json!({ "theme": "pink" }), json!({ "voice_speed": -1 }), json!({ "unheard_of": 1 })] {
        assert_eq!(ann(&stage, "PATCH /api/v1/preferences", body.clone()).await.0, 400, "{body}");
    }
}

#[tokio::test]
async fn al_119_servers_of_tools_and_unknown_paths_are_answered_in_json() {
    let stage = Stage::start(&[]).await;
    assert_eq!(ann(&stage, "GET /api/v1/mcp/servers", Value::Null).await, (200, json!({ "servers": [] })));
    let (status, tools) = ann(&stage, "GET /api/v1/tools", Value::Null).await;
    assert!(status == 200 && tools["tools"].is_object(), "{tools}");
    for request in ["GET /api/v1/nothing", "POST /api/v1/conversations/ac_1/nothing", "DELETE /api/v1/"] {
        let (status, body) = ann(&stage, request, Value::Null).await;
        assert_eq!(
            (status, &body["error"], &body["code"]),
            (404, &json!("not_found"), &json!(404)),
            "{request}"
        );
        assert!(body["message"].is_string());
    }
    let (status, body) = ann(&stage, "PUT /api/v1/mcp/servers", json!({})).await;
    assert_eq!((status, &body["code"]), (405, &json!(405)));
}

#[tokio::test]
async fn al_120_an_answer_that_is_too_long_is_told_in_words_for_people() {
    let mut stage = Stage::start(&["session.answer_bytes=100"]).await;
    let (mut device, _) = stage.begin().await;
    device.say("am_1", "go on for ever").await;
    let scene = stage.scenes.next().await;
    scene.try_say(&"x".repeat(101)).await;
    let told = device.until(|envelope| envelope.kind == ERROR).await;
    let words = told.last().unwrap().text("message").to_owned();
    assert_eq!(words, "The answer became longer than this server allows.");
}
