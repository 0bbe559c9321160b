//! Envelopes written and read by our codec, beside `rmp-serde` on plain structs that hold the same.
//!
//! The yardstick knows beforehand which type comes, in which order, and checks nothing but its shape; ours
//! takes any order and width, knows the limits, and tells apart who may send what.

use std::hint::black_box;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use nix::time::{ClockId, clock_gettime};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use switchboard_alicia::message::{
    Acknowledgement, AssistantSentence, Execution, ToolUseRequest, UserMessage,
};
use switchboard_alicia::{AliciaLimits, Body, Dialect, Envelope, Id, Map, Meta, Side, Value, decode, encode};
use switchboard_core::Pii;
use tokio::process::Command;

use crate::bench::figures::Scale;
use crate::bench::report::{Figure, percentile};

/// Time per envelope, of each kind and both ways; and instructions, where the machine counts them.
pub(in crate::bench) async fn figures(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for way in Way::ALL {
        for case in Case::ALL {
            let [ours, bare] = compare(case, way, scale.rounds)?;
            let name = |what: &str| {
                format!(
                    "Alicia codec, {} {} ({} bytes): {what}",
                    way.name(),
                    case.name(),
                    case.packet().len()
                )
            };
            figures
                .push(Figure::new(name("time per envelope"), ours, "ns").yardstick("rmp-serde (ns)", bare));
            figures.push(
                Figure::new(name("ratio to rmp-serde"), ours / bare, "×")
                    .yardstick("rmp-serde (ns)", bare)
                    .budget(way.budget(), 1.0),
            );
            let counted =
                [instructions(case, way, Codec::Ours).await?, instructions(case, way, Codec::Bare).await?];
            figures.extend(match counted {
                [Some(ours), Some(bare)] => Some(
                    Figure::new(name("instructions per envelope"), ours, "").yardstick("rmp-serde", bare),
                ),
                _ => None,
            });
        }
    }
    if !figures.iter().any(|figure| figure.is_about("instructions per envelope")) {
        figures.push(Figure::missing(
            "Alicia codec: instructions per envelope",
            "this machine has neither counters of instructions for `perf` nor `valgrind`",
        ));
    }
    Ok(figures)
}

/// Does one kind of work many times, to be counted from outside.
pub(in crate::bench) fn work(what: &str) -> anyhow::Result<()> {
    let words: Vec<&str> = what.split(',').collect();
    let &[way, case, codec, times] = words.as_slice() else { anyhow::bail!("{what} is no work") };
    let way = Way::ALL.into_iter().find(|known| known.name() == way).context("no such way")?;
    let case = Case::ALL.into_iter().find(|known| known.name() == case).context("no such case")?;
    let codec = if codec == Codec::Ours.name() { Codec::Ours } else { Codec::Bare };
    repeat(case, way, codec, times.parse()?)
}

/// Nanoseconds per envelope, ours and the yardstick's: medians of rounds that take turns.
fn compare(case: Case, way: Way, rounds: usize) -> anyhow::Result<[f64; 2]> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds.max(10) {
        for (codec, times) in [Codec::Ours, Codec::Bare].into_iter().zip(&mut times) {
            times.push(per_envelope(case, way, codec)?);
        }
    }
    Ok(times.map(|mut times| percentile(&mut times, 50.0)))
}

fn per_envelope(case: Case, way: Way, codec: Codec) -> anyhow::Result<f64> {
    let mut times = 1_000;
    loop {
        let began = spent()?;
        repeat(case, way, codec, times)?;
        let elapsed = spent()?.saturating_sub(began);
        if elapsed >= ROUND {
            return Ok(elapsed.as_secs_f64() * 1e9 / f64::from(times));
        }
        times = times.saturating_mul(4);
    }
}

/// Processor time of this thread: what else the machine does matters less to it.
fn spent() -> anyhow::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

fn repeat(case: Case, way: Way, codec: Codec, times: u32) -> anyhow::Result<()> {
    match (way, codec) {
        (Way::Encode, Codec::Ours) => {
            let envelope = case.envelope()?;
            for _ in 0..times {
                black_box(encode(black_box(&envelope)));
            }
        }
        (Way::Decode, Codec::Ours) => {
            let (packet, limits) = (case.packet(), AliciaLimits::default());
            for _ in 0..times {
                black_box(decode(black_box(&packet), case.from(), Dialect::Full, &limits));
            }
        }
        (way, Codec::Bare) => match case {
            Case::UserMessage => repeat_bare::<PlainUserMessage>(case, way, times)?,
            Case::AssistantSentence => repeat_bare::<PlainSentence>(case, way, times)?,
            Case::ToolUseRequest => repeat_bare::<PlainToolUse>(case, way, times)?,
            Case::Acknowledgement => repeat_bare::<PlainAcknowledgement>(case, way, times)?,
        },
    }
    Ok(())
}

fn repeat_bare<B: Serialize + DeserializeOwned>(case: Case, way: Way, times: u32) -> anyhow::Result<()> {
    let packet = case.packet();
    let plain: Plain<B> = rmp_serde::from_slice(&packet)?;
    for _ in 0..times {
        match way {
            Way::Encode => drop(black_box(rmp_serde::to_vec_named(black_box(&plain))?)),
            Way::Decode => drop(black_box(rmp_serde::from_slice::<Plain<B>>(black_box(&packet))?)),
        }
    }
    Ok(())
}

/// Instructions per envelope; none if nobody here counts them.
async fn instructions(case: Case, way: Way, codec: Codec) -> anyhow::Result<Option<f64>> {
    for counter in [Counter::Perf, Counter::Valgrind] {
        let idle = counter.count(&work_of(case, way, codec, 0)).await?;
        let busy = counter.count(&work_of(case, way, codec, COUNTED)).await?;
        if let (Some(idle), Some(busy)) = (idle, busy) {
            // What the process does besides is the same with and without work.
            return Ok(Some((busy - idle) / f64::from(COUNTED)));
        }
    }
    Ok(None)
}

/// Who counts instructions: the processor where a machine lets it, a simulated one otherwise.
#[derive(Clone, Copy, Debug)]
enum Counter {
    Perf,
    Valgrind,
}

impl Counter {
    /// The instructions of a process that does this work.
    async fn count(self, work: &str) -> anyhow::Result<Option<f64>> {
        let mut command = match self {
            Self::Perf => {
                let mut perf = Command::new("perf");
                perf.args(["stat", "-x,", "-e", "instructions:u", "--"]);
                perf
            }
            Self::Valgrind => {
                let mut valgrind = Command::new("valgrind");
                valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
                valgrind
            }
        };
        command.arg(std::env::current_exe()?).args(["bench", "--child-codec", work]).stdout(Stdio::null());
        let Ok(output) = command.output().await else { return Ok(None) };
        if !output.status.success() {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let number = |line: &str| match self {
            Self::Perf => line.split(',').next()?.parse().ok(),
            Self::Valgrind => line.split_once("Collected : ")?.1.trim().parse().ok(),
        };
        Ok(text.lines().find_map(number))
    }
}

/// The words that [`work`] understands.
fn work_of(case: Case, way: Way, codec: Codec, times: u32) -> String {
    format!("{},{},{},{times}", way.name(), case.name(), codec.name())
}

/// Whether envelopes are written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Encode,
    Decode,
}

impl Way {
    const ALL: [Self; 2] = [Self::Encode, Self::Decode];

    fn name(self) -> &'static str {
        match self {
            Self::Encode => "encode",
            Self::Decode => "decode",
        }
    }

    /// How much longer than the yardstick ours may take. Reading is liberal, which costs.
    fn budget(self) -> f64 {
        match self {
            Self::Encode => 1.3,
            Self::Decode => 1.5,
        }
    }
}

/// Who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Codec {
    Ours,
    Bare,
}

impl Codec {
    fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Bare => "bare",
        }
    }
}

/// What is said most often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    UserMessage,
    AssistantSentence,
    ToolUseRequest,
    Acknowledgement,
}

impl Case {
    const ALL: [Self; 4] =
        [Self::UserMessage, Self::AssistantSentence, Self::ToolUseRequest, Self::Acknowledgement];

    fn name(self) -> &'static str {
        match self {
            Self::UserMessage => "UserMessage with meta",
            Self::AssistantSentence => "AssistantSentence",
            Self::ToolUseRequest => "ToolUseRequest with parameters",
            Self::Acknowledgement => "Acknowledgement",
        }
    }

    fn from(self) -> Side {
        match self {
            Self::UserMessage => Side::Client,
            Self::AssistantSentence | Self::ToolUseRequest | Self::Acknowledgement => Side::Server,
        }
    }

    fn envelope(self) -> anyhow::Result<Envelope> {
        let id = |text: &str| Id::new(text.to_owned()).map_err(|reason| anyhow::anyhow!("{text}: {reason}"));
        let (question, answer) = (id("am_V1StGXR8_Z5jdHi6B-myT")?, id("am_4f90d13a42c76b8e5d21a")?);
        let mut meta = Map::new();
        let (stanza_id, body): (i32, Body) = match self {
            Self::UserMessage => {
                meta.insert("timestamp", TIME);
                meta.insert("clientVersion", "0.3.1");
                meta.insert("messaging.trace_id", "0af7651916cd43dd8448eb211c80319c");
                meta.insert("messaging.span_id", "b7ad6b7169203331");
                let message = UserMessage {
                    id: question,
                    previous_id: Some(answer),
                    content: Pii("Could you look up when the last train to Lisbon leaves tonight?".into()),
                    timestamp: Some(TIME),
                    superset: None,
                };
                (7, message.into())
            }
            Self::AssistantSentence => {
                let sentence = AssistantSentence {
                    id: Some(id("ams_Uakgb_J5m9g-0JDMbcJqL")?),
                    previous_id: answer,
                    sequence: 3,
                    text: Pii(" The last direct train leaves Porto at half past nine in the evening.".into()),
                    is_final: false,
                    audio: None,
                };
                (-418, sentence.into())
            }
            Self::ToolUseRequest => {
                let parameters = json!({
                    "from": "Porto", "to": "Lisboa", "after": "2026-01-01T18:00:00Z", "seats": 2, "classes": ["first", "second"],
                    "direct": true, "limit": 5, "bounds": { "price": 45.5, "minutes": 240 },
                });
                let Value::Map(parameters) = Value::try_from(parameters)? else { anyhow::bail!("no map") };
                let request = ToolUseRequest {
                    id: id("atu_000000000000000000001")?,
                    message_id: answer,
                    tool_name: "search_connections".into(),
                    parameters,
                    execution: Execution::Server,
                    timeout_ms: Some(30_000),
                };
                (-419, request.into())
            }
            Self::Acknowledgement => (0, Acknowledgement { acknowledged_stanza_id: 7, success: true }.into()),
        };
        let conversation_id = Some(id("ac_0123456789abcdefghijk")?);
        Ok(Envelope { stanza_id, conversation_id, meta: Meta::new(meta), body })
    }

    fn packet(self) -> Bytes {
        self.envelope().map(|envelope| encode(&envelope)).unwrap_or_default()
    }
}

/// An envelope, plainly.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Plain<B> {
    stanza_id: i32,
    conversation_id: String,
    #[serde(rename = "type")]
    kind: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    meta: Option<serde_json::Map<String, serde_json::Value>>,
    body: B,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlainUserMessage {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous_id: Option<String>,
    conversation_id: String,
    content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timestamp: Option<i64>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlainSentence {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    previous_id: String,
    conversation_id: String,
    sequence: u32,
    text: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_final: bool,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlainToolUse {
    id: String,
    message_id: String,
    conversation_id: String,
    tool_name: String,
    parameters: serde_json::Map<String, serde_json::Value>,
    execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<i64>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlainAcknowledgement {
    conversation_id: String,
    acknowledged_stanza_id: i32,
    success: bool,
}

/// The first of January 2026, in milliseconds since the Unix epoch.
const TIME: i64 = 1_767_225_600_000;
/// How long a round lasts at least.
const ROUND: Duration = Duration::from_millis(10);
/// Envelopes whose instructions are counted.
const COUNTED: u32 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn same_bytes<B: Serialize + DeserializeOwned>(case: Case) {
        let packet = case.packet();
        assert!(!packet.is_empty(), "{case:?}");
        let plain: Plain<B> = rmp_serde::from_slice(&packet).unwrap();
        assert_eq!(rmp_serde::to_vec_named(&plain).unwrap(), packet, "{case:?}");
        let read = decode(&packet, case.from(), Dialect::Full, &AliciaLimits::default());
        assert!(matches!(read.as_slice(), [Ok(_)]), "{case:?}: {read:?}");
    }

    #[test]
    fn both_codecs_write_the_same_bytes_and_read_them() {
        same_bytes::<PlainUserMessage>(Case::UserMessage);
        same_bytes::<PlainSentence>(Case::AssistantSentence);
        same_bytes::<PlainToolUse>(Case::ToolUseRequest);
        same_bytes::<PlainAcknowledgement>(Case::Acknowledgement);
    }

    #[test]
    fn work_is_named_as_the_figures_name_it() {
        for way in Way::ALL {
            for case in Case::ALL {
                for codec in [Codec::Ours, Codec::Bare] {
                    work(&format!("{},{},{},3", way.name(), case.name(), codec.name())).unwrap();
                }
            }
        }
        assert!(work("encode,nothing,ours,3").is_err());
    }
}
