use super::*;

fn history(whats: &[What]) -> History {
    let sights = (1..).zip(whats).map(|(second, what)| Sight {
        at: Duration::from_secs(second),
        request: 1,
        what: *what,
    });
    History { client: "ann".to_owned(), follows: None, sights: sights.collect() }
}

fn turn(words: &[u32], ends: &[bool]) -> Turn {
    Turn { session: "s".to_owned(), request: 1, asked: 3, words: words.to_vec(), ends: ends.to_vec() }
}

fn log(turns: &[Turn]) -> Log {
    Log { turns: turns.to_vec(), holes: Vec::new() }
}

/// What a client saw of a turn that is in the log as it should be.
fn seen(whats: &[What]) -> (u64, u64, u64) {
    counts(&check(&[history(whats)], &log(&[turn(&[0, 1, 2], &[true])])))
}

/// What is found in a log that nobody has looked at.
fn logged(turns: &[Turn]) -> (u64, u64, u64) {
    counts(&check(&[], &log(turns)))
}

fn counts(findings: &Findings) -> (u64, u64, u64) {
    let counts = (findings.lost, findings.doubled, findings.reordered);
    assert_eq!(findings.is_clean(), counts == (0, 0, 0));
    assert_eq!(findings.is_clean(), findings.examples.is_empty(), "{:?}", findings.examples);
    counts
}

use Ending::{Complete, Failed, Lost, Over};
use What::{Accepted, Ended, Garbled, Refused, Restarted, Word};

#[test]
fn what_is_as_it_should_be_is_not_complained_about() {
    let all = [Accepted, Word(0), Word(1), Word(2), Ended(Complete)];
    assert_eq!(seen(&all), (0, 0, 0));
    assert_eq!(seen(&[Word(0), Word(1), Word(2), Ended(Over)]), (0, 0, 0));
    let findings = check(&[history(&all)], &log(&[turn(&[0, 1, 2], &[true])]));
    assert_eq!((findings.requests, findings.words), (1, 3));
}

#[test]
fn a_word_that_never_came_is_lost() {
    assert_eq!(seen(&[Accepted, Word(0), Word(2), Ended(Complete)]), (1, 0, 0));
    assert_eq!(seen(&[Accepted, Word(0), Word(1), Ended(Complete)]), (1, 0, 0), "the last one");
    assert_eq!(seen(&[Accepted, Ended(Complete)]), (3, 0, 0));
    assert_eq!(seen(&[Word(0), Word(1), Word(2), Garbled, Ended(Complete)]), (1, 0, 0));
}

#[test]
fn a_word_that_was_told_and_is_not_in_the_log_is_lost() {
    let told = history(&[Accepted, Word(0), Word(1), Word(2), Ended(Failed)]);
    let findings = check(&[told], &log(&[turn(&[0, 1], &[false])]));
    assert_eq!(counts(&findings), (1, 0, 0));
}

#[test]
fn a_request_that_was_acknowledged_and_is_not_in_the_log_is_lost() {
    assert_eq!(counts(&check(&[history(&[Accepted])], &log(&[]))), (1, 0, 0));
    assert_eq!(counts(&check(&[history(&[Word(0)])], &log(&[]))), (1, 0, 0));
    assert_eq!(counts(&check(&[history(&[Refused])], &log(&[]))), (0, 0, 0));
    assert_eq!(counts(&check(&[history(&[Ended(Lost)])], &log(&[]))), (0, 0, 0), "it was never taken");
}

#[test]
fn an_end_that_never_came_or_is_another_one_is_lost() {
    assert_eq!(seen(&[Accepted, Word(0), Word(1), Word(2)]), (1, 0, 0));
    assert_eq!(seen(&[Accepted, Word(0), Word(1), Word(2), Ended(Lost)]), (1, 0, 0));
    assert_eq!(seen(&[Accepted, Word(0), Word(1), Word(2), Ended(Failed)]), (1, 0, 0));
    let claimed = history(&[Accepted, Word(0), Ended(Complete)]);
    assert_eq!(counts(&check(&[claimed], &log(&[turn(&[0], &[false])]))), (1, 0, 0));
}

#[test]
fn what_comes_twice_is_doubled() {
    assert_eq!(seen(&[Word(0), Word(1), Word(1), Word(2), Ended(Complete)]), (0, 1, 0));
    assert_eq!(seen(&[Word(0), Word(1), Word(0), Word(1), Word(2), Ended(Complete)]), (0, 2, 0));
    assert_eq!(seen(&[Word(0), Word(1), Word(2), Ended(Complete), Ended(Complete)]), (0, 1, 0));
}

#[test]
fn a_refused_request_that_ran_is_doubled_by_whoever_asks_again() {
    assert_eq!(seen(&[Refused]), (0, 1, 0));
}

#[test]
fn what_comes_too_early_is_reordered() {
    assert_eq!(seen(&[Word(1), Word(0), Word(2), Ended(Complete)]), (0, 0, 1));
    assert_eq!(seen(&[Word(2), Word(0), Word(1), Ended(Complete)]), (0, 0, 2));
}

#[test]
fn what_is_told_anew_counts_alone() {
    let anew = [Word(0), Word(1), Restarted, Word(0), Word(1), Word(2), Ended(Complete)];
    assert_eq!(seen(&anew), (0, 0, 0));
    assert_eq!(seen(&[Word(0), Word(1), Restarted, Word(1), Word(2), Ended(Complete)]), (1, 0, 0));
}

#[test]
fn the_log_itself_is_checked() {
    assert_eq!(logged(&[turn(&[0, 1, 2], &[true])]), (0, 0, 0));
    assert_eq!(logged(&[turn(&[0, 1], &[false])]), (0, 0, 0), "a failed answer may be short");
    assert_eq!(logged(&[turn(&[0, 2], &[true])]), (1, 0, 0));
    assert_eq!(logged(&[turn(&[1], &[false])]), (1, 0, 0), "but has no holes");
    assert_eq!(logged(&[turn(&[0, 1, 1, 2], &[true])]), (0, 1, 0));
    assert_eq!(logged(&[turn(&[0, 2, 1], &[true])]), (0, 0, 1));
    assert_eq!(logged(&[turn(&[0, 1, 2], &[])]), (1, 0, 0));
    assert_eq!(logged(&[turn(&[0, 1, 2], &[true, true])]), (0, 1, 0));
    assert_eq!(logged(&[turn(&[0, 1, 2], &[true]), turn(&[0, 1, 2], &[true])]), (0, 1, 0));
    let holed = Log { turns: Vec::new(), holes: vec!["7 after 5".to_owned()] };
    assert_eq!(counts(&check(&[], &holed)), (1, 0, 0));
}

#[test]
fn a_follower_has_to_see_every_request_of_its_session() {
    let turns = log(&[turn(&[0, 1, 2], &[true])]);
    let blind = |session: &str| History { follows: Some(session.to_owned()), ..history(&[]) };
    assert_eq!(counts(&check(&[blind("s")], &turns)), (1, 0, 0));
    assert_eq!(counts(&check(&[blind("another")], &turns)), (0, 0, 0));
}

#[test]
fn a_client_that_was_told_nothing_may_have_been_taken_or_not() {
    let uncertain = [Ended(Lost)];
    assert_eq!(counts(&check(&[history(&uncertain)], &log(&[]))), (0, 0, 0));
    let findings = check(&[history(&uncertain)], &log(&[turn(&[0, 1, 2], &[true])]));
    assert_eq!(counts(&findings), (0, 0, 0), "nobody was there to hear it");
}

#[test]
fn recovery_is_that_of_the_slowest() {
    let at = Duration::from_secs;
    let quick = history(&[Accepted, Word(0), Word(1)]);
    let slow = History { sights: quick.sights.iter().copied().step_by(2).collect(), ..quick.clone() };
    assert_eq!(
        recovery(&[quick.clone(), slow.clone()], Duration::from_millis(1_500)),
        Some(Duration::from_millis(1_500))
    );
    assert_eq!(recovery(std::slice::from_ref(&quick), at(2)), Some(Duration::ZERO));
    assert_eq!(recovery(&[quick, slow], at(4)), None);
    assert_eq!(recovery(&[history(&[])], at(4)), Some(Duration::ZERO), "who never saw anything");
}

#[test]
fn a_pause_is_found_between_sights_and_at_the_edges() {
    let at = Duration::from_secs;
    let seen = history(&[Accepted, Word(0), Word(1)]);
    assert_eq!(longest_pause(std::slice::from_ref(&seen), at(1), at(3)), at(1));
    assert_eq!(longest_pause(std::slice::from_ref(&seen), at(1), at(10)), at(7));
    assert_eq!(longest_pause(&[seen], at(0), at(3)), at(1));
    assert_eq!(longest_pause(&[history(&[])], at(2), at(5)), at(3));
}
