//! What a model has understood.

use serde_json::Value;
use switchboard_core::{Heard, Pii};

use super::language::is_tag;
use super::recogniser::RecogniserError;

/// Reads an answer, detailed or plain: all but the words is welcome, and nothing of it is necessary.
pub(super) fn read(answer: &[u8]) -> Result<Heard, RecogniserError> {
    let answer: Value = serde_json::from_slice(answer)
        .map_err(|_| RecogniserError::BadResponse("it is not what was expected"))?;
    let Some(text) = answer.get("text").and_then(Value::as_str) else {
        return Err(RecogniserError::BadResponse("it holds no text"));
    };
    let language = answer.get("language").and_then(Value::as_str).filter(|name| is_tag(name));
    Ok(Heard {
        text: Pii(text.trim().to_owned()),
        confidence: confidence(&answer),
        language: language.map(str::to_owned),
    })
}

/// How likely the words are, of all those that could have been said.
fn confidence(answer: &Value) -> Option<f64> {
    let segments = answer.get("segments")?.as_array()?;
    let likelihoods = || segments.iter().filter_map(|segment| segment.get("avg_logprob")?.as_f64());
    let count = likelihoods().count();
    (count > 0).then(|| (likelihoods().sum::<f64>() / count as f64).exp().clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn confidence_of(segments: Value) -> Option<f64> {
        read(json!({ "text": "a", "segments": segments }).to_string().as_bytes()).unwrap().confidence
    }

    #[test]
    fn confidence_is_the_mean_of_what_is_given() {
        let half = 0.5_f64.ln();
        let eighth = 0.125_f64.ln();
        let mean = confidence_of(json!([{ "avg_logprob": half }, { "avg_logprob": eighth }])).unwrap();
        assert!((mean - 0.25).abs() < 1e-9, "{mean}");
        let one = confidence_of(json!([{ "avg_logprob": half }, { "avg_logprob": null }, {}, 7])).unwrap();
        assert!((one - 0.5).abs() < 1e-9, "{one}");
    }

    #[test]
    fn confidence_is_never_beyond_its_bounds() {
        assert_eq!(confidence_of(json!([{ "avg_logprob": 2.0 }])), Some(1.0));
        assert_eq!(confidence_of(json!([{ "avg_logprob": -1e300 }, { "avg_logprob": -1e308 }])), Some(0.0));
        assert_eq!(
            confidence_of(json!([{ "avg_logprob": -1.7e308 }, { "avg_logprob": -1.7e308 }])),
            Some(0.0)
        );
    }

    #[test]
    fn without_likelihoods_there_is_no_confidence() {
        for segments in [json!(null), json!([]), json!({}), json!("x"), json!([{ "avg_logprob": "-1" }])] {
            assert_eq!(confidence_of(segments), None);
        }
    }
}
