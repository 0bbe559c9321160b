//! Both tables of §14.3.

use switchboard_asp::Code;
use switchboard_asp::relay::response::{Alarm, MAX_RETRY_AFTER_MS, MessageSource, message_from_body};
use switchboard_asp::relay::{ContentKind, Verdict, cpu_time};

fn fail(code: Code) -> Verdict {
    Verdict::Fail { code, message: MessageSource::Relay, alarm: Alarm::Quiet }
}

#[test]
fn asp_062_every_status_has_its_verdict() {
    let verdict = |status| Verdict::of(status, Some("application/x-ndjson"), None);
    let retry = Verdict::Retry { after_ms: None, then: Code::FunctionUnreachable };
    let invalid =
        Verdict::Fail { code: Code::InvalidInvoke, message: MessageSource::BodyIfJson, alarm: Alarm::Quiet };
    let unsigned = Verdict::Fail {
        code: Code::FunctionBadResponse,
        message: MessageSource::Relay,
        alarm: Alarm::Signature,
    };
    for status in 0..=1000 {
        let expected = match status {
            200 => Verdict::Stream(ContentKind::Ndjson),
            202 => Verdict::Async,
            204 => Verdict::Empty,
            400 | 422 => invalid,
            401 => unsigned,
            403 => fail(Code::Forbidden),
            404 => fail(Code::AgentNotFound),
            409 => Verdict::Attach { otherwise: Code::ExecutionFailed },
            408 | 429 | 502 | 503 | 504 => retry,
            500 | 501 | 505..=599 => Verdict::RetryIfNoBody { then: Code::ExecutionFailed },
            _ => fail(Code::FunctionBadResponse),
        };
        assert_eq!(verdict(status), expected, "{status}");
    }
}

#[test]
fn redirects_are_never_followed() {
    for status in 300..400 {
        assert_eq!(Verdict::of(status, Some("text/plain"), None), fail(Code::FunctionBadResponse));
    }
}

#[test]
fn asp_062_every_content_type_has_its_kind() {
    let table = [
        ("application/x-ndjson", ContentKind::Ndjson),
        ("text/event-stream", ContentKind::Sse),
        ("application/vnd.asp.frames", ContentKind::Frames),
        ("text/plain", ContentKind::Text),
        ("application/octet-stream", ContentKind::Bytes),
        ("application/json", ContentKind::Json),
    ];
    assert_eq!(table.len(), ContentKind::ALL.len());
    for (name, kind) in table {
        for written in [
            name.to_owned(),
            name.to_uppercase(),
            format!("{name}; charset=utf-8"),
            format!("  {name} ;a=b;c=\"d;e\""),
            format!("{name};"),
        ] {
            assert_eq!(Verdict::of(200, Some(&written), None), Verdict::Stream(kind), "{written}");
        }
        assert_eq!(kind.name(), name);
    }
    for other in ["text/html", "", ";", "application", "application/json5", "text/plain text/plain"] {
        assert_eq!(Verdict::of(200, Some(other), None), fail(Code::FunctionBadResponse), "{other}");
    }
    assert_eq!(Verdict::of(200, None, None), fail(Code::FunctionBadResponse));
}

#[test]
fn the_function_may_ask_for_time_within_a_bound() {
    let after = |text| match Verdict::of(503, None, Some(text)) {
        Verdict::Retry { after_ms, .. } => after_ms,
        other => panic!("{other:?}"),
    };
    assert_eq!(after("0"), Some(0));
    assert_eq!(after("2"), Some(2_000));
    assert_eq!(after(" 5 "), Some(5_000));
    assert_eq!(after("6"), Some(MAX_RETRY_AFTER_MS));
    assert_eq!(after("99999999999999999999999999"), Some(MAX_RETRY_AFTER_MS));
    for odd in ["", "-1", "1.5", "soon", "Wed, 21 Oct 2026 07:28:00 GMT", "+1"] {
        assert_eq!(after(odd), None, "{odd}");
    }
}

#[test]
fn processor_time_is_read_by_its_exact_pattern() {
    for (text, ms) in [("45ms", 45), ("0ms", 0), ("12.4ms", 12), ("12.5ms", 13), ("007ms", 7), ("0.0ms", 0)] {
        assert_eq!(cpu_time(text), Some(ms), "{text}");
    }
    assert_eq!(cpu_time(&format!("{}ms", "9".repeat(400))), Some(1 << 53));
    let odd = [
        "", "ms", "45", "45 ms", " 45ms", "45ms ", "45MS", "-45ms", "+45ms", ".5ms", "5.ms", "1e3ms",
        "1.2.3ms", "٣ms", "infms", "NaNms", "45s",
    ];
    for text in odd {
        assert_eq!(cpu_time(text), None, "{text}");
    }
}

#[test]
fn words_of_a_failure_come_from_a_json_body() {
    let words = |body: &str| message_from_body(body.as_bytes());
    for body in [
        r#"{"msg":"no such room"}"#,
        r#"{"message":"no such room"}"#,
        r#"{"error":"no such room"}"#,
        r#"{"error":{"msg":"no such room"},"msg":"other"}"#,
        r#"{"error":{"code":7},"message":"no such room"}"#,
    ] {
        assert_eq!(words(body).as_deref(), Some("no such room"), "{body}");
    }
    for body in ["", "no such room", "[]", "{}", r#"{"msg":7}"#, r#"{"error":null}"#] {
        assert_eq!(words(body), None, "{body}");
    }
    let long = words(&format!(r#"{{"msg":"{}"}}"#, "ä".repeat(400))).unwrap();
    assert_eq!(long, "ä".repeat(256));
}
