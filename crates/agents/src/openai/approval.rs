//! Which uses of tools a person is asked about.

use super::catalogue::Offer;
use super::config::Approval;

impl Approval {
    /// Whether a use of this tool has to be approved.
    pub(super) fn concerns(self, offer: &Offer) -> bool {
        let marks = &offer.annotations;
        match self {
            Self::Destructive => {
                marks.confirm == Some(true) || (marks.destructive == Some(true) && !offer.of_device)
            }
            Self::Always => true,
            Self::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use switchboard_core::ToolName;
    use switchboard_core::model::ToolAnnotations;

    use super::*;

    fn offer(destructive: Option<bool>, confirm: Option<bool>, of_device: bool) -> Offer {
        let annotations = ToolAnnotations { destructive, confirm, ..ToolAnnotations::default() };
        Offer { name: ToolName::from("t"), annotations, of_device }
    }

    #[test]
    fn marks_decide_what_has_to_be_approved() {
        let asks = |approval: Approval, offer: &Offer| approval.concerns(offer);
        assert!(asks(Approval::Destructive, &offer(Some(true), None, false)));
        assert!(asks(Approval::Destructive, &offer(None, Some(true), false)));
        assert!(!asks(Approval::Destructive, &offer(Some(false), Some(false), false)));
        assert!(!asks(Approval::Destructive, &offer(None, None, false)));
        assert!(!asks(Approval::Destructive, &offer(Some(true), None, true)));
        assert!(asks(Approval::Destructive, &offer(None, Some(true), true)));
        assert!(asks(Approval::Always, &offer(None, None, true)));
        assert!(!asks(Approval::Never, &offer(Some(true), Some(true), false)));
    }
}
