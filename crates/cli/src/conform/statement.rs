//! The numbered statements of the protocols, as their pages list them.

use std::fmt;

/// A protocol that can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    /// The Agent Socket Protocol
    Asp,
    /// Acolyte, over WebSocket and over HTTP
    Acolyte,
    /// AIP, for devices and those who use them
    Aip,
    /// VIP, for apps that can be talked to
    Vip,
    /// Alicia, conversations with an assistant
    Alicia,
}

impl Protocol {
    /// The name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Asp => "ASP",
            Self::Acolyte => "Acolyte",
            Self::Aip => "AIP",
            Self::Vip => "VIP",
            Self::Alicia => "Alicia",
        }
    }

    /// What ids of its statements begin with.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Asp => "ASP",
            Self::Acolyte => "AC",
            Self::Aip => "AIP",
            Self::Vip => "VIP",
            Self::Alicia => "AL",
        }
    }

    /// The id of a statement.
    pub(crate) fn id(self, number: u16) -> String {
        format!("{}-{number:03}", self.prefix())
    }

    /// Every statement, in order. The page that people read is the list that is checked.
    pub(crate) fn statements(self) -> Vec<Statement> {
        let page = match self {
            Self::Asp => include_str!("../../../../docs/protocols/asp.md"),
            Self::Acolyte => include_str!("../../../../docs/protocols/acolyte.md"),
            Self::Aip => include_str!("../../../../docs/protocols/aip.md"),
            Self::Vip => include_str!("../../../../docs/protocols/vip.md"),
            Self::Alicia => include_str!("../../../../docs/protocols/alicia.md"),
        };
        page.lines().filter_map(|line| self.statement(line)).collect()
    }

    fn statement(self, line: &str) -> Option<Statement> {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let number = cells.next()?.strip_prefix(self.prefix())?.strip_prefix('-')?.parse().ok()?;
        let (who, mode, gist) = (cells.next()?, cells.next()?, cells.next()?);
        Some(Statement { number, who: who.to_owned(), mode: mode.to_owned(), gist: gist.replace('`', "") })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// One statement.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    /// Its number.
    pub(crate) number: u16,
    /// Whom it binds.
    pub(crate) who: String,
    /// Where it applies.
    pub(crate) mode: String,
    /// What it says, in short.
    pub(crate) gist: String,
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn pages_number_their_statements_without_gaps() {
        for protocol in Protocol::value_variants() {
            let numbers: Vec<u16> = protocol.statements().iter().map(|statement| statement.number).collect();
            let count = u16::try_from(numbers.len()).unwrap();
            assert!(count >= 88, "{protocol}: {count}");
            assert_eq!(numbers, (1..=count).collect::<Vec<u16>>(), "{protocol}");
        }
        assert_eq!(Protocol::value_variants().len(), 5);
    }

    #[test]
    fn a_statement_is_read_from_its_row() {
        let row = "| AIP-001 | S | ws | `/ws` is the only socket; other paths are refused | upgrade; cli |";
        let statement = Protocol::Aip.statement(row).unwrap();
        assert_eq!((statement.number, statement.who.as_str(), statement.mode.as_str()), (1, "S", "ws"));
        assert_eq!(statement.gist, "/ws is the only socket; other paths are refused");
        assert!(Protocol::Asp.statement(row).is_none());
    }
}
