//! An endpoint for transcriptions, well and badly behaved.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use support::endpoint::{Reply, Request, Server};
use switchboard_agents::Secret;
use switchboard_agents::speech::{Recogniser, RecogniserConfig, RecogniserError};
use switchboard_core::{Heard, Pii, Utterance};
use tokio::net::TcpListener;

fn recogniser(url: &str, change: impl FnOnce(&mut RecogniserConfig)) -> Recogniser {
    let mut config = RecogniserConfig {
        base_url: url.to_owned(),
        model: "test-whisper".into(),
        api_key: Some(Secret::new("sk-test")),
        backoff_ms: 5,
        ..RecogniserConfig::default()
    };
    change(&mut config);
    Recogniser::new(config).unwrap()
}

fn utterance(format: &str, audio: impl Into<Bytes>) -> Utterance {
    Utterance { format: format.into(), audio: Pii(audio.into()), language: None }
}

fn answer(answer: &Value) -> Reply {
    Reply::Status(200, "", answer.to_string())
}

async fn hear(recogniser: &Recogniser, utterance: &Utterance) -> Result<Heard, RecogniserError> {
    tokio::time::timeout(Duration::from_secs(20), recogniser.hear(utterance)).await.unwrap()
}

/// What a server makes of one part of a form.
#[derive(Debug, PartialEq)]
struct Part {
    file_name: Option<String>,
    media_type: Option<String>,
    content: Vec<u8>,
}

/// Takes a form apart, and insists on every delimiter.
fn form(request: &Request) -> BTreeMap<String, Part> {
    let content_type = header(&request.head, "content-type").unwrap();
    let boundary = content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
    let delimiter = format!("\r\n--{boundary}");
    // The first delimiter has no line before it.
    let body = [b"\r\n", request.bytes.as_slice()].concat();
    let mut pieces = split(&body, delimiter.as_bytes());
    assert_eq!(pieces.remove(0), b"", "something comes before the first part");
    assert_eq!(pieces.pop().unwrap(), b"--\r\n", "the form does not end");
    let mut parts = BTreeMap::new();
    for piece in pieces {
        let piece = piece.strip_prefix(b"\r\n").unwrap();
        let end = piece.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&piece[..end]).unwrap();
        let disposition = header(&format!("\r\n{head}"), "content-disposition").unwrap();
        let mut words = disposition.split("; ");
        assert_eq!(words.next(), Some("form-data"));
        let words: BTreeMap<&str, &str> = words.map(|word| word.split_once('=').unwrap()).collect();
        let unquoted = |name: &str| words.get(name).map(|word| word.trim_matches('"').to_owned());
        let part = Part {
            file_name: unquoted("filename"),
            media_type: header(&format!("\r\n{head}"), "content-type"),
            content: piece[end + 4..].to_vec(),
        };
        assert!(parts.insert(unquoted("name").unwrap(), part).is_none(), "a part comes twice");
    }
    parts
}

fn header(head: &str, name: &str) -> Option<String> {
    head.split("\r\n")
        .filter_map(|line| line.split_once(": "))
        .find_map(|(found, value)| found.eq_ignore_ascii_case(name).then(|| value.to_owned()))
}

fn split<'a>(bytes: &'a [u8], delimiter: &[u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while let Some(place) = rest.windows(delimiter.len()).position(|window| window == delimiter) {
        pieces.push(&rest[..place]);
        rest = &rest[place + delimiter.len()..];
    }
    pieces.push(rest);
    pieces
}

fn field(form: &BTreeMap<String, Part>, name: &str) -> Option<String> {
    form.get(name).map(|part| String::from_utf8(part.content.clone()).unwrap())
}

fn u16_at(bytes: &[u8], place: usize) -> u16 {
    u16::from_le_bytes(bytes[place..place + 2].try_into().unwrap())
}

fn u32_at(bytes: &[u8], place: usize) -> u32 {
    u32::from_le_bytes(bytes[place..place + 4].try_into().unwrap())
}

#[tokio::test]
async fn an_utterance_becomes_words() {
    let said = json!({
        "task": "transcribe", "language": "en", "duration": 1.2, "text": " What time is it? ",
        "segments": [{ "id": 0, "text": " What time is it?", "avg_logprob": 0.5_f64.ln() }],
    });
    let server = Server::start(vec![answer(&said)]).await;
    let heard = hear(&recogniser(&server.url, |_| ()), &utterance("audio/wav", "RIFF")).await.unwrap();
    assert_eq!(heard.text, Pii("What time is it?".into()));
    assert_eq!(heard.language.as_deref(), Some("en"));
    assert!((heard.confidence.unwrap() - 0.5).abs() < 1e-9, "{heard:?}");

    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].head.starts_with("POST /v1/audio/transcriptions "), "{}", requests[0].head);
    assert_eq!(header(&requests[0].head, "authorization").as_deref(), Some("Bearer sk-test"));
    let form = form(&requests[0]);
    assert_eq!(form.len(), 3, "{form:?}");
    assert_eq!(field(&form, "model").as_deref(), Some("test-whisper"));
    assert_eq!(field(&form, "response_format").as_deref(), Some("verbose_json"));
}

#[tokio::test]
async fn a_plain_answer_is_enough() {
    for (said, language) in [
        (json!({ "text": "hello" }), None),
        (json!({ "text": "hello", "language": "english" }), None),
        (json!({ "text": "hello", "language": "pt-BR" }), Some("pt-BR")),
        (json!({ "text": "hello", "language": null, "segments": null }), None),
        (json!({ "text": "hello", "language": 7, "segments": [] }), None),
    ] {
        let server = Server::start(vec![answer(&said)]).await;
        let recogniser = recogniser(&server.url, |config| config.api_key = None);
        let heard = hear(&recogniser, &utterance("audio/webm", "x")).await.unwrap();
        let language = language.map(str::to_owned);
        assert_eq!(heard, Heard { text: Pii("hello".into()), confidence: None, language });
        assert_eq!(header(&server.requests()[0].head, "authorization"), None);
    }
}

#[tokio::test]
async fn silence_is_no_error() {
    let server = Server::start(vec![answer(&json!({ "text": " \n", "segments": [] }))]).await;
    let recogniser = recogniser(&server.url, |_| ());
    let nothing = Heard { text: Pii(String::new()), confidence: None, language: None };
    assert_eq!(hear(&recogniser, &utterance("audio/ogg", "x")).await.unwrap(), nothing);
    assert_eq!(server.requests().len(), 1);
    // Without a single sample there is nothing to ask about.
    for (format, audio) in [("pcm_s16le_16000", ""), ("pcm_s16le_16000", "x"), ("audio/ogg", "")] {
        assert_eq!(hear(&recogniser, &utterance(format, audio)).await.unwrap(), nothing);
    }
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn samples_become_a_wav_file() {
    let server = Server::start(vec![answer(&json!({ "text": "a" }))]).await;
    let recogniser = recogniser(&server.url, |_| ());
    // Of samples that are cut off, nothing is kept.
    for (format, length, rate, channels, kept) in [
        ("pcm_s16le_24000", 48_000, 24_000, 1, 48_000),
        ("pcm_s16le_8000", 3, 8_000, 1, 2),
        ("PCM_S16LE_16000", 320_001, 16_000, 1, 320_000),
        ("pcm_s16le_48000_2", 1_923, 48_000, 2, 1_920),
        ("pcm_s16le_44100_1", 882, 44_100, 1, 882),
    ] {
        let audio: Vec<u8> = (0..length).map(|number: u32| number.to_le_bytes()[0]).collect();
        hear(&recogniser, &utterance(format, audio.clone())).await.unwrap();
        let form = form(server.requests().last().unwrap());
        let file = &form["file"];
        assert_eq!(file.file_name.as_deref(), Some("utterance.wav"));
        assert_eq!(file.media_type.as_deref(), Some("audio/wav"));
        let wav = &file.content;
        assert_eq!(wav.len(), 44 + kept);
        assert_eq!((&wav[..4], &wav[8..16], &wav[36..40]), (&b"RIFF"[..], &b"WAVEfmt "[..], &b"data"[..]));
        assert_eq!(u32_at(wav, 4) as usize, wav.len() - 8);
        assert_eq!(u32_at(wav, 16), 16, "the length of what describes the samples");
        assert_eq!((u16_at(wav, 20), u16_at(wav, 22), u32_at(wav, 24)), (1, channels, rate));
        assert_eq!(u32_at(wav, 28), rate * u32::from(channels) * 2, "bytes in a second");
        assert_eq!((u16_at(wav, 32), u16_at(wav, 34)), (channels * 2, 16));
        assert_eq!(u32_at(wav, 40) as usize, kept);
        assert_eq!(wav[44..], audio[..kept]);
    }
}

#[tokio::test]
async fn files_are_passed_on_as_they_are() {
    let server = Server::start(vec![answer(&json!({ "text": "a" }))]).await;
    let recogniser = recogniser(&server.url, |_| ());
    let audio = b"\r\n--\r\n\0\xff--switchboard-\r\n\r\n".as_slice();
    for (format, name, media_type) in [
        ("audio/wav", "utterance.wav", "audio/wav"),
        ("audio/ogg; codecs=opus", "utterance.ogg", "audio/ogg"),
        ("audio/opus", "utterance.ogg", "audio/ogg"),
        ("audio/webm;codecs=opus", "utterance.webm", "audio/webm"),
        ("Audio/MPEG", "utterance.mp3", "audio/mpeg"),
        ("audio/mp4", "utterance.mp4", "audio/mp4"),
        ("audio/flac", "utterance.flac", "audio/flac"),
    ] {
        hear(&recogniser, &utterance(format, audio)).await.unwrap();
        let form = form(server.requests().last().unwrap());
        let wanted = Part {
            file_name: Some(name.into()),
            media_type: Some(media_type.into()),
            content: audio.to_vec(),
        };
        assert_eq!(form["file"], wanted, "{format}");
    }
}

#[tokio::test]
async fn what_no_model_can_read_is_not_sent() {
    let server = Server::start(vec![answer(&json!({ "text": "a" }))]).await;
    let recogniser = recogniser(&server.url, |_| ());
    for format in [
        "",
        "audio/basic",
        "audio/secret",
        "video/mp4",
        "opus_48000",
        "pcm_s16le",
        "pcm_s16le_",
        "pcm_s16le_0",
        "pcm_s16le_+8000",
        "pcm_s16le_-8000",
        "pcm_s16le_8000_",
        "pcm_s16le_8000_0",
        "pcm_s16le_8000_9",
        "pcm_s16le_8000_1_1",
        "pcm_s16le_99999999999",
        "pcm_s16be_8000",
    ] {
        let error = hear(&recogniser, &utterance(format, "ab")).await.unwrap_err();
        assert_eq!(error, RecogniserError::Format("its format is not known"), "{format}");
        assert!(!error.to_string().contains("secret"));
    }
    let flood = utterance("audio/wav", vec![0; (25 << 20) + 1]);
    assert_eq!(hear(&recogniser, &flood).await.unwrap_err(), RecogniserError::Format("it is too long"));
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn the_language_of_the_speaker_goes_first() {
    for (configured, spoken, wanted) in [
        (None, None, None),
        (Some("de-AT"), None, Some("de")),
        (Some("de"), Some("pt-BR"), Some("pt")),
        (None, Some("EN-us"), Some("en")),
        // What a client says is not trusted to be a language.
        (None, Some("en\r\n--x"), None),
        (Some("de"), Some("klingon"), Some("de")),
    ] {
        let server = Server::start(vec![answer(&json!({ "text": "a" }))]).await;
        let recogniser = recogniser(&server.url, |config| config.language = configured.map(str::to_owned));
        let language = spoken.map(str::to_owned);
        hear(&recogniser, &Utterance { language, ..utterance("audio/wav", "x") }).await.unwrap();
        assert_eq!(field(&form(&server.requests()[0]), "language").as_deref(), wanted);
    }
}

#[tokio::test]
async fn a_model_without_details_is_asked_plainly_from_then_on() {
    let refusal = json!({ "error": { "param": "response_format", "code": "unsupported_value" } }).to_string();
    let replies = vec![Reply::Status(400, "", refusal.clone()), answer(&json!({ "text": "a" }))];
    let server = Server::start(replies).await;
    let simple = recogniser(&server.url, |_| ());
    for _ in 0..2 {
        assert_eq!(hear(&simple, &utterance("audio/wav", "x")).await.unwrap().text, Pii("a".to_owned()));
    }
    let formats: Vec<_> =
        server.requests().iter().map(|request| field(&form(request), "response_format").unwrap()).collect();
    assert_eq!(formats, ["verbose_json", "json", "json"]);

    let server = Server::start(vec![Reply::Status(400, "", refusal)]).await;
    let error = hear(&recogniser(&server.url, |_| ()), &utterance("audio/wav", "x")).await.unwrap_err();
    assert!(matches!(error, RecogniserError::Refused(_)), "{error:?}");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn what_may_pass_is_tried_again() {
    let failing = || Reply::Status(503, "retry-after-ms: 1\r\n", String::new());
    for first in [failing(), Reply::Status(429, "", "{}".into()), Reply::Drop] {
        let server = Server::start(vec![first, answer(&json!({ "text": "a" }))]).await;
        let recogniser = recogniser(&server.url, |_| ());
        let heard = hear(&recogniser, &utterance("pcm_s16le_8000", "ab")).await.unwrap();
        assert_eq!(heard.text, Pii("a".into()));
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!(form(&requests[0]), form(&requests[1]));
    }
    let server = Server::start(vec![failing()]).await;
    let error = hear(&recogniser(&server.url, |_| ()), &utterance("audio/wav", "x")).await.unwrap_err();
    assert_eq!(error, RecogniserError::Unavailable("the speech endpoint failed (HTTP 503)".into()));
    assert_eq!(server.requests().len(), 2);

    let server = Server::start(vec![Reply::Status(429, "retry-after: 3600\r\n", String::new())]).await;
    let error = hear(&recogniser(&server.url, |_| ()), &utterance("audio/wav", "x")).await.unwrap_err();
    assert!(matches!(error, RecogniserError::Exhausted(_)), "{error:?}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_refusal_is_final_and_quotes_nobody() {
    for status in [400, 401, 404, 413, 415, 422] {
        let body = json!({ "error": { "message": "cannot hear: my secret, key sk-test", "param": "file" } });
        let server = Server::start(vec![Reply::Status(status, "", body.to_string())]).await;
        let recogniser = recogniser(&server.url, |_| ());
        let error = hear(&recogniser, &utterance("audio/wav", "my secret")).await.unwrap_err();
        assert!(matches!(error, RecogniserError::Refused(_)), "{error:?}");
        let said = format!("{error} {error:?} {recogniser:?}");
        assert!(said.contains(&status.to_string()), "{said}");
        assert!(!said.contains("my secret") && !said.contains("sk-test"), "{said}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let error = hear(&recogniser(&url, |_| ()), &utterance("audio/wav", "x")).await.unwrap_err();
    assert_eq!(error, RecogniserError::Unavailable("the speech endpoint cannot be reached".into()));
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_is_given_up() {
    for reply in [Reply::Silence, Reply::Hang(r#"{"text":"#.into())] {
        let server = Server::start(vec![reply]).await;
        let recogniser = recogniser(&server.url, |config| config.timeout_ms = 500);
        let error = hear(&recogniser, &utterance("audio/wav", "x")).await.unwrap_err();
        assert_eq!(error, RecogniserError::Unavailable("the speech endpoint took longer than 500 ms".into()));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn answers_that_make_no_sense_are_refused() {
    let flood = json!({ "text": "a".repeat(2 << 20) });
    for reply in [
        Reply::Status(200, "", String::new()),
        Reply::Status(200, "", "my secret, and no JSON".into()),
        Reply::Status(200, "", r#""my secret""#.into()),
        Reply::Endless("my secret".repeat(1000)),
        answer(&json!({})),
        answer(&json!({ "text": null })),
        answer(&json!({ "text": ["my secret"] })),
        answer(&json!([{ "text": "my secret" }])),
        answer(&flood),
    ] {
        let server = Server::start(vec![reply]).await;
        let recogniser = recogniser(&server.url, |_| ());
        let error = hear(&recogniser, &utterance("audio/wav", "x")).await.unwrap_err();
        assert!(matches!(error, RecogniserError::BadResponse(_)), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn a_configuration_has_to_make_sense() {
    let problem = |change: fn(&mut RecogniserConfig)| {
        let mut config = RecogniserConfig { model: "m".into(), ..RecogniserConfig::default() };
        change(&mut config);
        Recogniser::new(config).unwrap_err().to_string()
    };
    assert!(problem(|config| config.model.clear()).contains("`model`"));
    assert!(problem(|config| config.model = "a\r\nb".into()).contains("`model`"));
    assert!(problem(|config| config.language = Some("english".into())).contains("`language`"));
    assert!(problem(|config| config.attempts = 0).contains("`attempts`"));
    assert!(problem(|config| config.base_url = "ftp://x".into()).contains("http://"));
    assert!(problem(|config| config.base_url = "x".into()).contains("`base_url`"));
    assert!(problem(|config| config.api_key = Some(Secret::new("a\nb"))).contains("API key"));
}
