//! How answers are weighed, and the elites among the programs that make them (§4.22).

use super::memory::Ratio;
use super::rows::body;
use super::words::names;
use crate::id::Id;

body! {
    /// How answers are to be weighed.
    DimensionPreference {
        ..conversation
        /// The weights; those that are missing come from the preset.
        weights: Weights = required "weights";
        /// A known set of weights; an unknown one counts as none.
        preset: Option<Preset> = known "preset";
        /// When, in milliseconds since the Unix epoch.
        timestamp: i64 = required "timestamp";
    }
}

impl DimensionPreference {
    /// The weights to use: completed from the preset, then divided by their sum; balanced if all are zero.
    pub fn resolved(&self) -> Dimensions {
        let preset = self.preset.map_or([0.0; 7], |preset| preset.dimensions().to_array());
        let given = self.weights.to_array();
        let filled: Vec<f64> =
            given.iter().zip(preset).map(|(given, preset)| given.map_or(preset, Ratio::get)).collect();
        let sum: f64 = filled.iter().sum();
        match <[f64; 7]>::try_from(filled) {
            Ok(filled) if sum > 0.0 => Dimensions::from_array(filled.map(|weight| weight / sum)),
            Ok(_) | Err(_) => Preset::Balanced.dimensions(),
        }
    }
}

body! {
    /// One elite is chosen.
    EliteSelect {
        ..conversation
        /// Which.
        elite_id: Id = required "eliteId";
        /// When, in milliseconds since the Unix epoch.
        timestamp: i64 = required "timestamp";
    }
}

body! {
    /// The elites on offer.
    EliteOptions {
        ..conversation
        /// Best first.
        elites: Vec<Elite> = required "elites" [0..=items];
        /// The one in use.
        current_elite_id: Option<Id> = or_empty "currentEliteId";
        /// When, in milliseconds since the Unix epoch.
        timestamp: i64 = required "timestamp";
    }
}

body! {
    /// A program that is best at something.
    Elite {
        /// `pa_…`
        id: Id = required "id";
        /// Its name.
        label: String = required "label";
        /// How good it is.
        scores: Dimensions = required "scores";
        /// What it does.
        description: String = required "description";
        /// What it is best for.
        best_for: String = required "bestFor";
    }
}

body! {
    /// Weights as they came, possibly not all.
    Weights {
        /// How often it succeeds.
        success_rate: Option<Ratio> = optional "successRate";
        /// How good it is.
        quality: Option<Ratio> = optional "quality";
        /// How little it costs.
        efficiency: Option<Ratio> = optional "efficiency";
        /// How little disturbs it.
        robustness: Option<Ratio> = optional "robustness";
        /// How far it carries.
        generalization: Option<Ratio> = optional "generalization";
        /// How different its answers are.
        diversity: Option<Ratio> = optional "diversity";
        /// How new they are.
        innovation: Option<Ratio> = optional "innovation";
    }
}

impl Weights {
    /// In the order of the preset table.
    pub fn to_array(&self) -> [Option<Ratio>; 7] {
        [
            self.success_rate,
            self.quality,
            self.efficiency,
            self.robustness,
            self.generalization,
            self.diversity,
            self.innovation,
        ]
    }
}

body! {
    /// The seven dimensions of an answer.
    #[derive(Copy)]
    Dimensions {
        /// How often it succeeds.
        success_rate: f64 = required "successRate";
        /// How good it is.
        quality: f64 = required "quality";
        /// How little it costs.
        efficiency: f64 = required "efficiency";
        /// How little disturbs it.
        robustness: f64 = required "robustness";
        /// How far it carries.
        generalization: f64 = required "generalization";
        /// How different its answers are.
        diversity: f64 = required "diversity";
        /// How new they are.
        innovation: f64 = required "innovation";
    }
}

impl Dimensions {
    /// In the order of the preset table.
    pub fn to_array(self) -> [f64; 7] {
        [
            self.success_rate,
            self.quality,
            self.efficiency,
            self.robustness,
            self.generalization,
            self.diversity,
            self.innovation,
        ]
    }

    /// From the order of the preset table.
    pub fn from_array(values: [f64; 7]) -> Self {
        let [success_rate, quality, efficiency, robustness, generalization, diversity, innovation] = values;
        Self { success_rate, quality, efficiency, robustness, generalization, diversity, innovation }
    }

    /// How good something is under these weights.
    pub fn score(self, scores: Self) -> f64 {
        self.to_array().iter().zip(scores.to_array()).map(|(weight, score)| weight * score).sum()
    }
}

names! {
    /// A known set of weights.
    Preset {
        /// Right above all.
        Accuracy = "accuracy",
        /// Fast above all.
        Speed = "speed",
        /// Steady above all.
        Reliable = "reliable",
        /// New above all.
        Creative = "creative",
        /// Some of everything.
        Balanced = "balanced",
    }
}

impl Preset {
    /// Its weights, which sum to 1.
    pub fn dimensions(self) -> Dimensions {
        Dimensions::from_array(match self {
            Self::Accuracy => [0.40, 0.25, 0.10, 0.10, 0.10, 0.03, 0.02],
            Self::Speed => [0.20, 0.15, 0.35, 0.15, 0.10, 0.03, 0.02],
            Self::Reliable => [0.25, 0.20, 0.10, 0.30, 0.10, 0.03, 0.02],
            Self::Creative => [0.15, 0.20, 0.10, 0.10, 0.10, 0.20, 0.15],
            Self::Balanced => [0.25, 0.20, 0.15, 0.15, 0.10, 0.10, 0.05],
        })
    }
}
