//! What tokens cost.

use switchboard_core::model::Usage;

use super::config::OpenAiConfig;
use super::wire::{CACHED, INPUT, OUTPUT};

/// The cost of everything that was counted so far, in millionths of the unit of the prices, rounded
/// up; none where there are no prices or no counts.
///
/// Prices are for a million tokens, so that a token costs as many millionths as the price says.
pub(super) fn cost(config: &OpenAiConfig, usage: &Usage) -> Option<u64> {
    let prices = [config.price_input, config.price_cached_input, config.price_output];
    if usage.0.is_empty() || prices.iter().all(Option::is_none) {
        return None;
    }
    let count = |name| usage.0.get(name).copied().unwrap_or_default();
    let input = config.price_input.unwrap_or_default();
    let cached = count(CACHED).min(count(INPUT));
    let items = [
        (count(INPUT) - cached, input),
        (cached, config.price_cached_input.unwrap_or(input)),
        (count(OUTPUT), config.price_output.unwrap_or_default()),
    ];
    let total = items.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(scaled(*price)));
    let total = total.fold(0, u128::saturating_add);
    Some(u64::try_from(total.div_ceil(u128::from(SCALE))).unwrap_or(u64::MAX))
}

/// What is wrong with a price.
pub(super) fn problem(price: f64) -> Option<&'static str> {
    (!(0.0..=MAX_PRICE).contains(&price)).then_some("has to be a number from 0 to 1000000000")
}

/// A price in integers, so that what looks even is even: 0.1 for 30 tokens costs 3 and not 4.
fn scaled(price: f64) -> u64 {
    (price * SCALE as f64).round() as u64
}

/// Parts of a millionth that are still told apart.
const SCALE: u64 = 1_000_000;
/// More than this for a million tokens is a mistake.
const MAX_PRICE: f64 = 1e9;

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(counts: &[(&str, u64)]) -> Usage {
        Usage(counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect())
    }

    fn config(input: Option<f64>, cached: Option<f64>, output: Option<f64>) -> OpenAiConfig {
        OpenAiConfig {
            price_input: input,
            price_cached_input: cached,
            price_output: output,
            ..OpenAiConfig::default()
        }
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let counted = usage(&[(INPUT, 1000), (CACHED, 400), (OUTPUT, 50)]);
        assert_eq!(cost(&config(Some(2.5), Some(1.25), Some(10.0)), &counted), Some(1500 + 500 + 500));
        assert_eq!(cost(&config(Some(2.5), None, None), &counted), Some(2500));
        assert_eq!(cost(&config(None, None, Some(10.0)), &counted), Some(500));
        assert_eq!(cost(&config(Some(1.0), Some(0.0), None), &counted), Some(600));
    }

    #[test]
    fn what_is_not_even_is_rounded_up_and_what_is_even_is_not() {
        let price = config(Some(0.1), None, None);
        for (tokens, wanted) in [(0, 0), (1, 1), (10, 1), (11, 2), (30, 3), (31, 4)] {
            assert_eq!(cost(&price, &usage(&[(INPUT, tokens)])), Some(wanted), "{tokens}");
        }
    }

    #[test]
    fn without_prices_or_counts_there_is_no_cost() {
        assert_eq!(cost(&config(None, None, None), &usage(&[(INPUT, 1)])), None);
        assert_eq!(cost(&config(Some(1.0), None, None), &usage(&[])), None);
    }

    #[test]
    fn absurd_counts_do_no_harm() {
        let most = usage(&[(INPUT, u64::MAX), (CACHED, u64::MAX), (OUTPUT, u64::MAX)]);
        assert_eq!(cost(&config(Some(1e9), Some(1e9), Some(1e9)), &most), Some(u64::MAX));
        assert_eq!(cost(&config(Some(1.0), Some(0.0), None), &usage(&[(INPUT, 1), (CACHED, 5)])), Some(0));
        for price in [-1.0, f64::NAN, f64::INFINITY, 2e9] {
            assert!(problem(price).is_some(), "{price}");
        }
        assert_eq!((problem(0.0), problem(0.15)), (None, None));
    }
}
