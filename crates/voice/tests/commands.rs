//! Spoken commands, as an app would have them: ten of ten have to arrive, whoever speaks.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod common;

use common::{Line, program, settings, silence, spoken, voices};
use switchboard_core::{VoiceEvent, VoiceOp};
use switchboard_voice::speak::Speaker;
use tokio::time::pause;

const COMMANDS: [&str; 10] = [
    "open the settings",
    "go to the orders page",
    "add two apples to the cart",
    "turn on dark mode",
    "cancel my order",
    "search for red shoes",
    "what is in my cart",
    "log out",
    "show the help",
    "set my name to Robert",
];

#[tokio::test]
async fn ten_commands_of_ten_arrive_from_a_man() {
    all_arrive(Speaker::Flite, Some("rms")).await;
}

#[tokio::test]
async fn ten_commands_of_ten_arrive_from_a_woman() {
    all_arrive(Speaker::Flite, Some("slt")).await;
}

#[tokio::test]
async fn ten_commands_of_ten_arrive_from_a_machine() {
    all_arrive(Speaker::Espeak, Some("en-gb")).await;
}

async fn all_arrive(speaker: Speaker, voice: Option<&str>) {
    let voices = voices().await;
    let program = program(speaker);
    let mut spoken_commands = Vec::new();
    for command in COMMANDS {
        spoken_commands.push(spoken(&program, voice, command).await);
    }
    // From here on time only passes while nobody works, so that a busy machine is no reason to fail.
    pause();
    let mut line = Line::open(&voices, settings());
    let (mut wrong, mut words, mut arrived) = (0, 0, 0);
    for ((turn, command), speech) in (1..).zip(COMMANDS).zip(spoken_commands) {
        line.ask(VoiceOp::Listen { turn, silence_ms: Some(600), overheard: false });
        line.send(&[silence(400), speech, silence(900)].concat()).await;
        line.until(|event| *event == VoiceEvent::Silence { turn }).await;
        line.ask(VoiceOp::Conclude { turn });
        let ended =
            |event: &VoiceEvent| matches!(event, VoiceEvent::Heard { .. } | VoiceEvent::Unheard { .. });
        let heard = match line.until(ended).await.1 {
            VoiceEvent::Heard { heard, .. } => heard.text.0,
            other => panic!("{command}: {other:?}"),
        };
        let errors = word_errors(command, &heard);
        wrong += errors;
        words += command.split(' ').count();
        let action = nearest(&heard);
        arrived += usize::from(action == command);
        println!("{command:28} {heard:32} {errors} wrong, taken for: {action}");
    }
    println!("{arrived} of 10 arrived; {wrong} of {words} words were wrong");
    assert_eq!(arrived, COMMANDS.len());
    assert!(wrong * 3 < words, "{wrong} of {words} words were wrong");
}

/// The command that sounds the most like what was heard.
fn nearest(heard: &str) -> &'static str {
    let heard = plain(heard);
    let distance = |command: &str| {
        let command = plain(command);
        let apart = distance(&command.chars().collect::<Vec<_>>(), &heard.chars().collect::<Vec<_>>());
        apart * 1000 / command.len().max(heard.len()).max(1)
    };
    COMMANDS.into_iter().min_by_key(|command| distance(command)).unwrap()
}

fn word_errors(command: &str, heard: &str) -> usize {
    let (command, heard) = (plain(command), plain(heard));
    distance(&command.split(' ').collect::<Vec<_>>(), &heard.split(' ').collect::<Vec<_>>())
}

fn plain(text: &str) -> String {
    let letters: String = text.chars().filter(|c| c.is_alphanumeric() || *c == ' ').collect();
    letters.to_lowercase()
}

/// How many things have to be put in, taken out or exchanged.
fn distance<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let exchanged = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = exchanged.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}
