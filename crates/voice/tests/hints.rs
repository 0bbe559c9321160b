//! What it helps to know what may well be said, with two synthetic voices that nobody here has made.

mod common;

use std::sync::Arc;

use common::{models_dir, program, spoken};
use switchboard_voice::VoicesConfig;
use switchboard_voice::hear::{Hints, Speech};
use switchboard_voice::speak::Speaker;

/// What the demo shop says of its first page, of its orders and of its settings.
const HOME: &[&str] = &[
    "Add coffee beans to the cart",
    "Add rye bread to the cart",
    "Add honey to the cart",
    "Add olive oil to the cart",
    "Add green tea to the cart",
    "Add chocolate to the cart",
    "Empty the cart",
    "Place the order: buy what is in the cart",
    "Search for products",
    "Dark mode",
    "Turn dark mode on or off",
    "Home",
    "Your orders",
    "Settings",
    "Help",
];
const ORDERS: &[&str] = &[
    "Cancel order 1042, Coffee beans and rye bread",
    "Dark mode",
    "Turn dark mode on or off",
    "Home",
    "Your orders",
    "Settings",
    "Help",
];

/// What its help page says can be said, and where.
const PHRASES: &[(&str, &[&str])] = &[
    ("Open the orders page", HOME),
    ("Add honey to the cart", HOME),
    ("Search for coffee", HOME),
    ("Turn on dark mode", HOME),
    ("Cancel the order", ORDERS),
    ("What is in my cart?", HOME),
];

/// Ordinary sentences, many of them with words of the shop or words that sound like them.
const SENTENCES: &[&str] = &[
    "What is the weather like today?",
    "My sister likes honey in her tea.",
    "I turned off the light in the kitchen.",
    "The order of the words does not matter.",
    "We had bread and cheese for lunch.",
    "He opened the door and went home.",
    "And honey is sweet, as you know.",
    "The horse pulled the cart up the hill.",
    "It was dark when we came back.",
    "The chart on page two is wrong.",
    "He placed the cup on the table.",
    "The mood was dark after the game.",
    "The teacher searched for his glasses.",
    "You can empty your pockets now.",
    "I had money in the car.",
    "Eddie hunted near the park.",
    "The boss ordered a new desk.",
    "Order is half of life.",
    "That sounds like a good idea.",
    "The green team won the match.",
];

fn words(text: &str) -> String {
    let letters = text.to_lowercase().replace('\'', "");
    let letters = letters.chars().map(|letter| if letter.is_alphanumeric() { letter } else { ' ' });
    letters.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn vip_096_what_can_be_done_is_understood_and_free_speech_stays_as_it_was() {
    let config = VoicesConfig { models_dir: models_dir().await, ..VoicesConfig::default() };
    let recogniser = switchboard_voice::local_recogniser(&config).unwrap();
    let (flite, espeak) = (program(Speaker::Flite), program(Speaker::Espeak));
    let voices = [(&flite, Some("slt")), (&flite, Some("rms")), (&espeak, None), (&espeak, Some("en-gb"))];
    let hear = async |samples: &[f32], hints: Hints| {
        let speech = Speech { samples: samples.to_vec(), language: "en-US".into(), hints: Arc::new(hints) };
        recogniser.hear(&speech).await.unwrap().text.0
    };
    let (mut without, mut with, mut missed) = (0, 0, Vec::new());
    for (phrase, screen) in PHRASES {
        for (program, voice) in voices {
            let sound = spoken(program, voice, phrase).await;
            let plain = hear(&sound, Hints::default()).await;
            let helped = hear(&sound, Hints::new(screen.iter().copied())).await;
            without += usize::from(words(&plain) == words(phrase));
            with += usize::from(words(&helped) == words(phrase));
            if words(&helped) != words(phrase) {
                missed
                    .push(format!("{voice:?}: {phrase:?} was heard as {helped:?}, without hints {plain:?}"));
            }
        }
    }
    let all = PHRASES.len() * voices.len();
    println!("phrases: {without} of {all} without hints, {with} with them; {missed:#?}");
    assert!(without + 6 <= with && with + 2 >= all, "{without} and {with} of {all}: {missed:#?}");

    let mut changed = Vec::new();
    for sentence in SENTENCES {
        for (program, voice) in voices {
            let sound = spoken(program, voice, sentence).await;
            let plain = hear(&sound, Hints::default()).await;
            for screen in [HOME, ORDERS] {
                let helped = hear(&sound, Hints::new(screen.iter().copied())).await;
                if plain != helped {
                    changed.push(format!("{voice:?}: {sentence:?}: {plain:?} became {helped:?}"));
                }
            }
        }
    }
    println!("free sentences changed: {changed:#?}");
    assert!(changed.len() * 50 <= SENTENCES.len() * voices.len() * 2, "more than 2 %: {changed:#?}");
}
