//! AIP: bytes to messages and back, and anything that can happen to a connection.

use std::collections::VecDeque;

use bytes::Bytes;
use switchboard_aip::codec::{decode_client, decode_server, encode_client, encode_server};
use switchboard_aip::ledger::Bookkeeper;
use switchboard_aip::{Aip, AipLimits, Service};
use switchboard_core::{Frame, OpeningRequest};

use super::Choices;
use super::connection::Bench;

/// Reads bytes as both sides would; what was understood is written and read again, and has to be the
/// same.
///
/// # Panics
/// Something is broken.
pub fn aip_decode(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match decode_client(text) {
        Ok(message) => {
            let again = encode_client(&message);
            assert_eq!(decode_client(&again), Ok(message), "a message is read as it was written");
        }
        Err(error) => assert!(error.to_string().chars().count() <= 1024, "a refusal is short"),
    }
    if let Ok(message) = decode_server(text) {
        let again = encode_server(&message);
        assert_eq!(decode_server(&again), Ok(message), "a message is read as it was written");
    }
}

/// Feeds a connection frames, answers, events, signals, time, pressure and goodbyes in any order that
/// a server could. It always comes to rest, is silent after it has closed, and stays small.
///
/// # Panics
/// Something is broken.
pub fn aip_connection(bytes: &[u8]) {
    let limits = AipLimits { tasks_per_device: 3, tasks_per_constellation: 2, ..AipLimits::default() };
    let service = Service { allow_untargeted: bytes.len().is_multiple_of(2), ..Service::default() };
    let request = OpeningRequest { path: "/ws", websocket: true, ..OpeningRequest::default() };
    Bench::new(&Aip::new(limits, service), request, likely_frame).with(Bookkeeper).run(bytes);
}

/// A frame that makes sense, most of the time.
fn likely_frame(choices: &mut Choices<'_>, _said: &VecDeque<Bytes>, _number: u64) -> Frame {
    let messages = [
        r#"{"type":"register","status":"ok","client_id":"dNAME","metadata":{"system_info":{"cpu_count":8},"task_announce":true}}"#,
        r#"{"type":"register","status":"ok","client_id":"dNAME"}"#,
        r#"{"type":"register","status":"ok","client_type":"constellation","client_id":"c","target_id":"dNAME"}"#,
        r#"{"type":"heartbeat","status":"ok","client_id":"dNAME"}"#,
        r#"{"type":"task","status":"continue","request":"hi","session_id":"sNAME"}"#,
        r#"{"type":"task","status":"continue","request":"hi","session_id":"sNAME"}"#,
        r#"{"type":"task","status":"continue","request":"hi","task_name":"T"}"#,
        r#"{"type":"task","status":"continue","client_type":"constellation","request":"hi","target_id":"dNAME","session_id":"s"}"#,
        r#"{"type":"command_results","status":"continue","session_id":"sNAME","prev_response_id":"b","action_results":[]}"#,
        r#"{"type":"command_results","status":"failed","session_id":"sNAME","prev_response_id":"b","action_results":null}"#,
        r#"{"type":"task_end","status":"failed","session_id":"sNAME","error":"stop"}"#,
        r#"{"type":"task_end","status":"completed","session_id":"sNAME"}"#,
        r#"{"type":"device_info_request","status":"ok","client_type":"constellation","request_id":"q"}"#,
        r#"{"type":"device_info_response","status":"ok","metadata":{"cpu_count":4}}"#,
        r#"{"type":"error","status":"error","session_id":"sNAME","error":"oh"}"#,
        r"{oops",
    ];
    let message = choices.pick(&messages).unwrap_or_default();
    let text = message.replace("NAME", &choices.below(3).to_string());
    if choices.byte() & 7 == 7 { Frame::Binary(Bytes::from(text)) } else { Frame::Text(text) }
}
