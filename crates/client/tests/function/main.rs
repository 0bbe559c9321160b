//! Functions behind a relay: the library by itself, and the same function as a process in three languages,
//! asked by a relay by hand.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

mod answers;
mod cancel;
mod library;
mod output;
mod relay;
mod support;
mod trust;

/// The same tests for every language.
macro_rules! in_each_language {
    ($($module:ident: $language:expr,)*) => { $(
        mod $module {
            use crate::support::Language;
            use crate::{answers, cancel, output, trust};

            const LANGUAGE: Language = $language;

            #[tokio::test]
            async fn asp_060_a_bad_signature_is_refused() {
                trust::bad_signature(LANGUAGE).await;
            }

            #[tokio::test]
            async fn asp_060_a_timestamp_older_than_300_s_is_refused() {
                trust::old_timestamp(LANGUAGE).await;
            }

            #[tokio::test]
            async fn either_of_two_secrets_will_do() {
                trust::two_secrets(LANGUAGE).await;
            }

            #[tokio::test]
            async fn asp_065_what_was_answered_is_a_duplicate() {
                trust::answered_duplicate(LANGUAGE).await;
            }

            #[tokio::test]
            async fn asp_065_what_runs_is_a_duplicate() {
                trust::running_duplicate(LANGUAGE).await;
            }

            #[tokio::test]
            async fn asp_065_what_broke_off_is_taken_in_a_later_attempt() {
                trust::later_attempt(LANGUAGE).await;
            }

            #[tokio::test]
            async fn what_is_no_chat_is_refused() {
                trust::no_chat(LANGUAGE).await;
            }

            #[tokio::test]
            async fn one_url_serves_all_events() {
                trust::one_url(LANGUAGE).await;
            }

            #[tokio::test]
            async fn words_are_streamed_one_by_one() {
                output::words(LANGUAGE).await;
            }

            #[tokio::test]
            async fn every_form_of_a_chat_is_read() {
                output::forms(LANGUAGE).await;
            }

            #[tokio::test]
            async fn an_answer_may_come_later_by_push() {
                output::later(LANGUAGE).await;
            }

            #[tokio::test]
            async fn a_push_that_did_not_get_through_is_repeated() {
                output::push_again(LANGUAGE).await;
            }

            #[tokio::test]
            async fn a_tool_is_pushed() {
                output::tool(LANGUAGE).await;
            }

            #[tokio::test]
            async fn processor_time_is_in_a_header() {
                output::cpu(LANGUAGE).await;
            }

            #[tokio::test]
            async fn a_failure_is_an_error_record() {
                output::fail(LANGUAGE).await;
            }

            #[tokio::test]
            async fn a_function_that_dies_breaks_the_connection() {
                output::die(LANGUAGE).await;
            }

            #[tokio::test]
            async fn a_cold_start_takes_its_time() {
                output::cold(LANGUAGE).await;
            }

            #[tokio::test]
            async fn a_call_suspends_and_its_answer_continues() {
                answers::call(LANGUAGE).await;
            }

            #[tokio::test]
            async fn a_question_suspends_and_its_answer_continues() {
                answers::ask(LANGUAGE).await;
            }

            #[tokio::test]
            async fn an_answer_that_does_not_come_is_told() {
                answers::timeout(LANGUAGE).await;
            }

            #[tokio::test]
            async fn a_question_may_wait_with_the_response_open() {
                answers::hold(LANGUAGE).await;
            }

            #[tokio::test]
            async fn silence_is_filled_with_pings() {
                answers::pings(LANGUAGE).await;
            }

            #[tokio::test]
            async fn a_broken_connection_cancels() {
                cancel::abort(LANGUAGE).await;
            }

            #[tokio::test]
            async fn a_broken_connection_cancels_before_the_answer_began() {
                cancel::abort_early(LANGUAGE).await;
            }

            #[tokio::test]
            async fn an_interrupt_cancels() {
                cancel::interrupt(LANGUAGE).await;
            }

            #[tokio::test]
            async fn the_cancel_url_cancels() {
                cancel::poll(LANGUAGE).await;
            }

            #[tokio::test]
            async fn an_interrupt_ends_pushes() {
                cancel::interrupt_later(LANGUAGE).await;
            }
        }
    )* };
}

in_each_language! {
    rust: Language::Rust,
    python: Language::Python,
    node: Language::Node,
}
