use super::*;
use crate::testing::{clicks, noise, silence, speech, tone};

/// Hears in packets of 20 ms, and says after how many milliseconds each sign came.
fn hear(ear: &mut Ear, samples: &[f32]) -> Vec<(usize, Sign)> {
    let mut all = Vec::new();
    for (number, packet) in samples.chunks(320).enumerate() {
        let mut signs = Vec::new();
        ear.hear(packet, &mut signs);
        all.extend(signs.into_iter().map(|sign| ((number + 1) * 20, sign)));
    }
    all
}

fn listening(silence_ms: Option<u32>) -> Ear {
    let mut ear = Ear::new();
    let mut signs = Vec::new();
    ear.listen(silence_ms, false, &mut signs);
    assert!(signs.is_empty());
    ear
}

fn overhearing() -> Ear {
    let mut ear = Ear::new();
    ear.overhear(true);
    ear
}

fn times(signs: &[(usize, Sign)], is: impl Fn(&Sign) -> bool) -> Vec<usize> {
    signs.iter().filter(|(_, sign)| is(sign)).map(|(at, _)| *at).collect()
}

fn is_speech(sign: &Sign) -> bool {
    matches!(sign, Sign::Speech { .. })
}

fn pieces(signs: Vec<(usize, Sign)>) -> Vec<Piece> {
    let piece = |(_, sign)| match sign {
        Sign::Piece(piece) => Some(piece),
        Sign::Suspected | Sign::Relieved | Sign::Speech { .. } | Sign::Silence | Sign::Interim => None,
    };
    signs.into_iter().filter_map(piece).collect()
}

#[test]
fn speech_is_noticed_soon_and_once() {
    let mut ear = listening(None);
    let signs = hear(&mut ear, &[silence(1_000), speech("Please open the settings now.")].concat());
    let [at] = times(&signs, is_speech)[..] else { panic!("{signs:?}") };
    assert!((1_150..1_700).contains(&at), "after {at} ms");
    let Some((_, Sign::Speech { confidence, level_db })) = signs.iter().find(|(_, sign)| is_speech(sign))
    else {
        panic!()
    };
    assert!((0.6..=1.0).contains(confidence) && (-40.0..-3.0).contains(level_db), "{confidence} {level_db}");
}

#[test]
fn silence_ends_a_turn_when_it_has_lasted_as_long_as_agreed() {
    let words = speech("What is in my cart?");
    let spoken_ms = words.len() / 16;
    for silence_ms in [200, 700, 3_000] {
        let mut ear = listening(Some(silence_ms));
        let signs = hear(&mut ear, &[words.clone(), silence(5_000)].concat());
        let [at] = times(&signs, |sign| *sign == Sign::Silence)[..] else { panic!("{signs:?}") };
        let after = at - spoken_ms;
        // The voice of the program ends a little before its sound does, and the detector notices a little later.
        let expected = silence_ms as usize;
        assert!(
            (expected.saturating_sub(250)..expected + 250).contains(&after),
            "{after} for {silence_ms} ms"
        );
    }
}

#[test]
fn a_pause_that_is_too_short_ends_nothing() {
    let mut ear = listening(Some(1_000));
    let parts = [speech("Open the settings,"), silence(500), speech("and then close them."), silence(600)];
    let signs = hear(&mut ear, &parts.concat());
    assert!(times(&signs, |sign| *sign == Sign::Silence).is_empty(), "{signs:?}");
    assert_eq!(times(&signs, is_speech).len(), 1);
}

#[test]
fn noise_clicks_tones_and_silence_are_no_speech() {
    let sounds = [
        ("silence", silence(5_000)),
        ("noise", noise(5_000, 0.3)),
        ("loud noise", noise(5_000, 1.0)),
        ("clicks", clicks(5_000)),
        ("a tone", tone(5_000, 440.0)),
        ("a knock", [silence(1_000), noise(60, 0.9), silence(2_000)].concat()),
    ];
    for (name, sound) in sounds {
        let mut ear = listening(Some(500));
        let signs = hear(&mut ear, &sound);
        assert!(signs.is_empty(), "{name}: {signs:?}");
        let ending = ear.conclude();
        assert!(!ending.spoke && ending.tail.is_none(), "{name}");
        let mut ear = overhearing();
        let signs = hear(&mut ear, &sound);
        assert!(times(&signs, is_speech).is_empty(), "{name} is overheard: {signs:?}");
    }
}

#[test]
fn speech_is_noticed_in_noise() {
    let words = speech("Please add two apples to the cart.");
    let noisy: Vec<f32> = words.iter().zip(noise(words.len() / 16 + 1, 0.02)).map(|(a, b)| a + b).collect();
    let mut ear = listening(None);
    let signs = hear(&mut ear, &[noise(1_000, 0.02), noisy].concat());
    assert_eq!(times(&signs, is_speech).len(), 1, "{signs:?}");
}

#[test]
fn the_tail_holds_the_words_and_little_else() {
    let words = speech("Log out.");
    let mut ear = listening(None);
    hear(&mut ear, &[silence(5_000), words.clone(), silence(1_200)].concat());
    let ending = ear.conclude();
    let tail = ending.tail.unwrap().samples.len() / 16;
    let spoken = words.len() / 16;
    assert!(
        ending.spoke && (spoken.saturating_sub(300)..spoken + 650).contains(&tail),
        "{tail} of {spoken} ms"
    );
}

#[test]
fn overheard_speech_is_suspected_before_it_is_told() {
    let mut ear = overhearing();
    let signs = hear(&mut ear, &[silence(500), speech("Stop, that is enough.")].concat());
    let suspected = times(&signs, |sign| *sign == Sign::Suspected);
    let [told] = times(&signs, is_speech)[..] else { panic!("{signs:?}") };
    assert!(suspected[0] + 100 < told && told - suspected[0] < 600, "{signs:?}");
}

#[test]
fn what_was_no_speech_is_a_relief() {
    let word = speech("Hey!");
    let middle = word.len() / 2;
    // As long as it takes to be suspicious, and too short for a word.
    let grunt = &word[middle - 1_600..middle + 800];
    let mut ear = overhearing();
    let signs = hear(&mut ear, &[&silence(500)[..], grunt, &silence(1_500)[..]].concat());
    let signs: Vec<Sign> = signs.into_iter().map(|(_, sign)| sign).collect();
    assert_eq!(signs, [Sign::Suspected, Sign::Relieved]);
}

#[test]
fn who_is_told_and_does_nothing_hears_the_answer_go_on() {
    let mut ear = overhearing();
    let signs =
        hear(&mut ear, &speech("I am only talking to somebody else here in this room, as I always do."));
    let told = times(&signs, is_speech)[0];
    let relieved = times(&signs, |sign| *sign == Sign::Relieved)[0];
    assert!((1_900..2_300).contains(&(relieved - told)), "{signs:?}");
}

#[test]
fn what_was_overheard_is_the_head_of_the_turn() {
    let words = speech("Wait a moment, please.");
    let mut ear = overhearing();
    let (head, rest) = words.split_at(14_400);
    let signs = hear(&mut ear, &[&silence(3_000)[..], head].concat());
    assert_eq!(times(&signs, is_speech).len(), 1, "{signs:?}");
    let mut signs = Vec::new();
    ear.listen(Some(700), true, &mut signs);
    assert!(!signs.iter().any(is_speech), "that somebody speaks is known already: {signs:?}");
    let signs = hear(&mut ear, &[rest, &silence(900)[..]].concat());
    assert_eq!(times(&signs, |sign| *sign == Sign::Silence).len(), 1, "{signs:?}");
    let tail = ear.conclude().tail.unwrap().samples.len();
    assert!(tail > words.len() - 4_800 && tail < words.len() + 12_000, "{tail} of {}", words.len());
}

#[test]
fn no_more_than_a_second_is_overheard() {
    let mut ear = overhearing();
    hear(&mut ear, &speech("This sentence lasts for quite a while, and most of it is nobody's business."));
    let mut signs = Vec::new();
    ear.listen(None, true, &mut signs);
    let held = ear.conclude().tail.map_or(0, |tail| tail.samples.len());
    assert!(held > 0 && held <= 16_000, "{held} samples");
}

#[test]
fn ten_minutes_of_speech_are_one_minute_in_pieces() {
    let words =
        speech("And then, as I said before, we went on to talk about everything that came to our minds.");
    let story: Vec<f32> = words.iter().copied().cycle().take(600 * 16_000).collect();
    let mut ear = listening(Some(700));
    let mut signs = hear(&mut ear, &story);
    let ends = times(&signs, |sign| *sign == Sign::Silence);
    assert!(ends.len() == 1 && (59_000..70_000).contains(&ends[0]), "{ends:?}");
    assert!(times(&signs, is_speech).len() == 1 && signs.len() < 200);
    let ending = ear.conclude();
    signs.extend(ending.tail.map(|tail| (0, Sign::Piece(tail))));
    let pieces = pieces(signs);
    let lengths: Vec<usize> = pieces.iter().map(|piece| piece.samples.len() / 16).collect();
    assert!(lengths.iter().all(|length| *length <= 10_100), "{lengths:?}");
    let sum: usize = lengths.iter().sum();
    assert!((50_000..=62_000).contains(&sum), "{sum} ms in {lengths:?}");
}

#[test]
fn speech_is_cut_at_pauses() {
    let sentence =
        speech("First of all I would like to see everything that is in my shopping cart right now.");
    let parts = [sentence.clone(), silence(800), sentence.clone(), silence(800), sentence, silence(800)];
    let mut ear = listening(None);
    let cut = pieces(hear(&mut ear, &parts.concat()));
    assert_eq!(cut.len(), 3, "{cut:?}");
    assert!(cut.windows(2).all(|pair| pair[0].mark != pair[1].mark));
    assert!(ear.conclude().tail.is_none(), "everything is given away");
}

#[test]
fn one_may_ask_once_a_second_and_at_pauses() {
    let mut ear = listening(None);
    let words = speech("Please go to the orders page and tell me what I have bought there so far.");
    let signs = hear(&mut ear, &[words.clone(), silence(100)].concat());
    let asked = times(&signs, |sign| *sign == Sign::Interim);
    let spoken = words.len() / 16_000 + 1;
    assert!((2..=spoken + 2).contains(&asked.len()), "{asked:?}");
    let last = ear.tail().unwrap();
    assert_eq!(last.mark, ear.conclude().tail.unwrap().mark, "nothing was said since");
}

#[test]
fn what_is_no_number_does_no_harm() {
    let mut ear = listening(Some(500));
    hear(&mut ear, &[f32::NAN, f32::INFINITY, -f32::INFINITY, 1e30].repeat(4_000));
    ear.conclude();
    let mut signs = Vec::new();
    ear.listen(Some(500), false, &mut signs);
    let signs = hear(&mut ear, &[silence(300), speech("Show the help."), silence(1_000)].concat());
    assert_eq!(times(&signs, is_speech).len(), 1, "the next turn is not affected: {signs:?}");
}

#[test]
fn packets_of_any_size_give_the_same_signs() {
    let sound = [silence(700), speech("Turn on dark mode."), silence(1_000)].concat();
    let hear_in = |size: usize| {
        let mut ear = listening(Some(500));
        let mut signs = Vec::new();
        sound.chunks(size).for_each(|packet| ear.hear(packet, &mut signs));
        signs
    };
    let usual = hear_in(320);
    assert!(usual.len() >= 2);
    for size in [1, 160, 255, 1_000, 100_000] {
        assert_eq!(hear_in(size), usual, "in packets of {size}");
    }
}

#[test]
fn nobody_listens_uninvited() {
    let mut ear = Ear::new();
    let words = speech("Nobody should hear this.");
    assert!(hear(&mut ear, &words).is_empty() && ear.recent.is_empty());
    ear.overhear(true);
    ear.overhear(false);
    assert!(hear(&mut ear, &words).is_empty() && ear.recent.is_empty());
    assert!(!ear.conclude().spoke);
}
