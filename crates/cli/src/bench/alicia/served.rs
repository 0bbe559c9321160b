//! Conversations over the socket: many at a time, one that is come back to, and one that is long.

use std::time::Duration;

use anyhow::ensure;
use switchboard_alicia::message::{Role, Subscribe, SyncMessage, SyncRequest};
use switchboard_alicia::{Body, Id, Word};
use switchboard_core::Pii;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::Client;
use crate::bench::figures::{Scale, millis, phase};
use crate::bench::report::{Figure, percentile};
use crate::bench::servers::{Load, Process};

/// A thousand conversations on a hundred sockets, each hearing two sentences in a second.
pub(in crate::bench) async fn sentences(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let (sockets, count) = if scale.rounds > 10 { (100, 20) } else { (10, 6) };
    let load = Load::paced(count, 64, Duration::from_millis(500));
    let mut bare = stream(&Process::bare().await?.address, sockets, load).await?;
    let process = Process::server(SETTINGS).await?;
    let mut ours = stream(&process.address, sockets, load).await?;
    let case = format!("Alicia, {} conversations on {sockets} sockets, two sentences/s each", sockets * EACH);
    let mut figures = Vec::new();
    for share in [50.0, 99.0] {
        figures.push(
            Figure::new(format!("{case}: delivery, p{share}"), percentile(&mut ours, share), "ms")
                .yardstick("bare loop (ms)", percentile(&mut bare, share)),
        );
    }
    let memory = process.memory() as f64 / f64::from(1 << 20);
    figures.push(Figure::new(format!("{case}: memory of the server"), memory, "MiB"));
    Ok(figures)
}

/// How old each sentence was when it came, in milliseconds.
async fn stream(address: &str, sockets: u32, load: Load) -> anyhow::Result<Vec<f64>> {
    let mut tasks = JoinSet::new();
    for number in 0..sockets {
        let address = address.to_owned();
        tasks.spawn(async move {
            let mut client = Client::connect(&address).await?;
            let mut conversations = Vec::new();
            for _ in 0..EACH {
                conversations.push(client.configure(None, None).await?.0);
            }
            // Everybody speaks at a moment of his own, and listens all the time.
            let mut due = Instant::now() + SETTLING + phase(load, number, sockets) / EACH;
            let (mut ages, mut finals) = (Vec::new(), 0);
            while finals < EACH {
                let received = tokio::select! {
                    () = tokio::time::sleep_until(due), if !conversations.is_empty() => {
                        client.say(&conversations.swap_remove(0), &load.text()).await?;
                        due += load.delay / EACH;
                        continue;
                    }
                    received = client.receive() => received?,
                };
                if let Body::AssistantSentence(sentence) = &received.envelope.body {
                    finals += u32::from(sentence.is_final);
                    let made = Load::made_at(sentence.text.0.trim_start_matches('A'));
                    ages.extend(made.map(|made| received.at.saturating_sub(made) as f64 / 1000.0));
                }
            }
            let expected = (load.count * EACH) as usize;
            ensure!(ages.len() == expected, "{} sentences came instead of {expected}", ages.len());
            anyhow::Ok(ages)
        });
    }
    let mut ages = Vec::new();
    while let Some(result) = tasks.join_next().await {
        ages.extend(result??);
    }
    Ok(ages)
}

/// A client that comes back for 500 envelopes.
pub(in crate::bench) async fn resume(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let process = Process::server(SETTINGS).await?;
    let mut client = Client::connect(&process.address).await?;
    let (conversation, _) = client.configure(None, None).await?;
    client.say(&conversation, &Load::burst(MISSED + 20, 64).text()).await?;
    client.until(|body| matches!(body, Body::AssistantSentence(sentence) if sentence.is_final)).await?;
    let (_, head) = client.configure(Some(conversation.clone()), None).await?;
    let mark = head + i32::try_from(MISSED)?;
    let mut times = Vec::new();
    for _ in 0..scale.rounds {
        let mut client = Client::connect(&process.address).await?;
        let began = Instant::now();
        client.configure(Some(conversation.clone()), Some(mark)).await?;
        let mut next = mark;
        while next > head {
            let stanza = client.receive().await?.envelope.stanza_id;
            if stanza != 0 {
                next -= 1;
                ensure!(stanza == next, "stanza {stanza} came instead of {next}");
            }
        }
        times.push(millis(began.elapsed()));
    }
    let name = format!("Alicia, resume of {MISSED} missed envelopes, p99");
    Ok(vec![Figure::new(name, percentile(&mut times, 99.0), "ms").budget(20.0, 5.0)])
}

/// Opening a conversation must not take longer because it is longer.
pub(in crate::bench) async fn opening(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let process = Process::server(&[SETTINGS, &["limits.session_idle_ms=1"]].concat()).await?;
    let few = fill(&process.address, SHORT).await?;
    let many = fill(&process.address, scale.long).await?;
    let ways: [(&str, Way); 3] = [
        ("to SubscribeAck", Way::Subscribe),
        ("to SubscribeAck that counts ten missed messages", Way::Missed),
        ("to Configuration", Way::Configure),
    ];
    let mut figures = Vec::new();
    for (what, way) in ways {
        // They take turns, so that both see the same machine.
        let (mut short, mut long) = (Vec::new(), Vec::new());
        for _ in 0..scale.rounds.max(10) {
            short.push(open(&process.address, &few, SHORT, way).await?);
            long.push(open(&process.address, &many, scale.long, way).await?);
        }
        let (short, long) = (percentile(&mut short, 50.0), percentile(&mut long, 50.0));
        let name = format!("Alicia, opening a conversation of {} messages, {what}, median", scale.long);
        let yardstick = format!("one of {SHORT} (ms)");
        figures.push(Figure::new(&name, long, "ms").yardstick(&yardstick, short));
        let name = format!("{name}: ratio to one of {SHORT}");
        figures.push(Figure::new(name, long / short, "×").yardstick(&yardstick, short).budget(1.5, 1.2));
    }
    Ok(figures)
}

/// How a conversation is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Subscribe,
    Missed,
    Configure,
}

async fn open(address: &str, conversation: &Id, messages: u32, way: Way) -> anyhow::Result<f64> {
    // Time for the session to be forgotten, so that it is opened from the log.
    tokio::time::sleep(FORGOTTEN).await;
    let mut client = Client::connect(address).await?;
    let began = Instant::now();
    match way {
        Way::Configure => drop(client.configure(Some(conversation.clone()), None).await?),
        Way::Subscribe | Way::Missed => {
            let from_sequence = (way == Way::Missed).then(|| u64::from(messages) - 10);
            client.send(Some(conversation.clone()), Subscribe { from_sequence }).await?;
            let answer = client.until(|body| matches!(body, Body::SubscribeAck(_))).await?;
            let Body::SubscribeAck(ack) = answer.body else { anyhow::bail!("no answer") };
            ensure!(ack.success, "not subscribed: {:?}", ack.error);
            ensure!(way == Way::Subscribe || ack.missed_messages == Some(10), "{:?}", ack.missed_messages);
        }
    }
    Ok(millis(began.elapsed()))
}

/// A conversation of so many messages, which were written offline.
async fn fill(address: &str, messages: u32) -> anyhow::Result<Id> {
    let mut client = Client::connect(address).await?;
    let (conversation, _) = client.configure(None, None).await?;
    for first in (0..messages).step_by(BATCH as usize) {
        let messages = (first..messages.min(first + BATCH)).map(|number| SyncMessage {
            local_id: format!("local_{number}"),
            sequence_number: i64::from(number) + 1,
            previous_id: None,
            role: Word::Known(if number % 2 == 0 { Role::User } else { Role::Assistant }),
            contents: Pii(format!("Message {number} of a long conversation.")),
            created_at: "2026-01-01T00:00:00Z".into(),
            updated_at: None,
        });
        client.send(Some(conversation.clone()), SyncRequest { messages: messages.collect() }).await?;
        client.until(|body| matches!(body, Body::SyncResponse(_))).await?;
    }
    Ok(conversation)
}

/// Answers come in sentences, from the agent that takes the place of this one, and no limit is in the way.
const SETTINGS: &[&str] = &[
    "agents.sentences.kind=echo",
    "agent=sentences",
    "alicia.limits.envelopes_per_10_s=1000000",
    "alicia.limits.envelopes_burst=1000000",
];
/// Conversations of one socket.
const EACH: u32 = 10;
/// Time for everybody to have begun.
const SETTLING: Duration = Duration::from_secs(2);
const FORGOTTEN: Duration = Duration::from_millis(300);
/// Envelopes that were missed.
const MISSED: u32 = 500;
/// Messages of a short conversation.
const SHORT: u32 = 100;
/// Messages that are synced at a time.
const BATCH: u32 = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::servers::bare_loops;

    #[tokio::test]
    async fn the_client_understands_the_yardstick() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = tokio::spawn(async move { axum::serve(listener, bare_loops()).await });
        let load = Load::paced(5, 64, Duration::from_millis(1));
        let ages = stream(&address, 2, load).await.unwrap();
        assert_eq!(ages.len(), 5 * 2 * EACH as usize);
        server.abort();
    }
}
