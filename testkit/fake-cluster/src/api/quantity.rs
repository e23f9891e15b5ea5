//! Kubernetes quantities such as `1500m` and `2Gi`: read, compared, and written in their canonical form.
//! Used when pods are checked.

use std::fmt;

const NANOS: i128 = 1_000_000_000;
const DECIMAL: [(&str, i128); 10] = [
    ("E", NANOS * 1_000_000_000_000_000_000),
    ("P", NANOS * 1_000_000_000_000_000),
    ("T", NANOS * 1_000_000_000_000),
    ("G", NANOS * 1_000_000_000),
    ("M", NANOS * 1_000_000),
    ("k", NANOS * 1_000),
    ("", NANOS),
    ("m", NANOS / 1_000),
    ("u", NANOS / 1_000_000),
    ("n", 1),
];
const BINARY: [(&str, i128); 6] = [
    ("Ei", NANOS << 60),
    ("Pi", NANOS << 50),
    ("Ti", NANOS << 40),
    ("Gi", NANOS << 30),
    ("Mi", NANOS << 20),
    ("Ki", NANOS << 10),
];

/// An amount, exact to a billionth. Displays as Kubernetes stores it: `0.5` as `500m`, `2048Mi` as `2Gi`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantity {
    nanos: i128,
    is_binary: bool,
}

impl Quantity {
    /// `None` for text that is no quantity.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let end = text
            .find(|letter: char| !(letter.is_ascii_digit() || "+-.".contains(letter)))
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let mut is_binary = false;
        let unit = if let Some((_, unit)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
            *unit
        } else if let Some((_, unit)) = BINARY.iter().find(|(name, _)| *name == suffix) {
            is_binary = true;
            *unit
        } else {
            let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let ten = 10_i128.checked_pow(power.unsigned_abs())?;
            if power < 0 { NANOS / ten } else { NANOS.checked_mul(ten)? }
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        // What is finer than a billionth rounds up, as in Kubernetes.
        let product = digits.checked_mul(unit)?;
        let nanos = product.div_euclid(scale) + i128::from(product.rem_euclid(scale) != 0);
        Some(Self { nanos, is_binary })
    }

    pub(super) fn is_negative(self) -> bool {
        self.nanos < 0
    }

    pub(super) fn is_integer(self) -> bool {
        self.nanos % NANOS == 0
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.nanos.partial_cmp(&other.nanos)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return formatter.write_str("0");
        }
        let binary = BINARY.iter().filter(|_| self.is_binary);
        let fitting = binary.chain(&DECIMAL).find(|(_, unit)| self.nanos % unit == 0);
        let (suffix, unit) = fitting.copied().unwrap_or(("n", 1));
        write!(formatter, "{}{suffix}", self.nanos / unit)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0.5", "500m")]
    #[case("1500m", "1500m")]
    #[case("2000m", "2")]
    #[case("16", "16")]
    #[case("1000", "1k")]
    #[case("2048Mi", "2Gi")]
    #[case("1.5Gi", "1536Mi")]
    #[case("1e3", "1k")]
    #[case("-1", "-1")]
    #[case("0", "0")]
    fn canonical_text(#[case] text: &str, #[case] canonical: &str) {
        assert_eq!(Quantity::parse(text).unwrap().to_string(), canonical);
    }

    #[rstest]
    #[case("two")]
    #[case("1x")]
    #[case("")]
    #[case("1.-5")]
    fn no_quantity(#[case] text: &str) {
        assert!(Quantity::parse(text).is_none());
    }
}
