//! Kubernetes quantities (`resource.Quantity`) such as `1500m` and `2Gi`: read, compared, counted and written in their
//! canonical form. Used by the API server to check pods, and by `amounts` for the scheduler and the kubelet.

use std::cmp::Ordering;
use std::fmt;

use k8s_openapi::apimachinery::pkg::api::resource;

/// An amount, exact to a billionth. Displays as Kubernetes stores it: `0.5` as `500m`, `2048Mi` as `2Gi`, `1000e0` as
/// `1e3`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    nanos: i128,
    notation: Notation,
}

/// How a quantity is written; kept from the text that it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    /// `k`, `M`, .. and `m`, `u`, `n`.
    Decimal,
    /// `Ki`, `Mi`, ..
    Binary,
    /// `e3`, `E-3`, ..
    Exponent,
}

/// A power of ten, as suffix and as exponent.
struct DecimalUnit {
    suffix: &'static str,
    exponent: i32,
}

/// The power of ten of a billionth.
const NANO: i32 = -9;
const NANOS_PER_UNIT: i128 = 1_000_000_000;
const DECIMAL: [DecimalUnit; 10] = [
    DecimalUnit { suffix: "E", exponent: 18 },
    DecimalUnit { suffix: "P", exponent: 15 },
    DecimalUnit { suffix: "T", exponent: 12 },
    DecimalUnit { suffix: "G", exponent: 9 },
    DecimalUnit { suffix: "M", exponent: 6 },
    DecimalUnit { suffix: "k", exponent: 3 },
    DecimalUnit { suffix: "", exponent: 0 },
    DecimalUnit { suffix: "m", exponent: -3 },
    DecimalUnit { suffix: "u", exponent: -6 },
    DecimalUnit { suffix: "n", exponent: NANO },
];
/// Suffix and power of two.
const BINARY: [(&str, u32); 6] = [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];

impl Quantity {
    /// `None` for text that is no quantity, or one beyond what an `i128` of billionths holds.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || fraction.contains('.') {
            return None;
        }
        let (notation, factor, exponent) = unit(suffix)?;
        let product = digits.parse::<i128>().ok()?.checked_mul(factor)?;
        let exponent = i64::from(exponent) - i64::from(NANO) - i64::try_from(fraction.len()).ok()?;
        let nanos = times_ten_to(product, exponent)?;
        Some(Self { nanos: if is_negative { -nanos } else { nanos }, notation })
    }

    /// The quantity in whole units (bytes, devices, pods), rounded up; `None` if it is more than an `i64` holds.
    pub(crate) fn units(self) -> Option<i64> {
        i64::try_from(divided_up(self.nanos, NANOS_PER_UNIT)).ok()
    }

    /// The quantity in thousandths (millicores of cpu), rounded up; `None` if it is more than an `i64` holds.
    pub(crate) fn thousandths(self) -> Option<i64> {
        i64::try_from(divided_up(self.nanos, NANOS_PER_UNIT / 1000)).ok()
    }

    pub(crate) fn is_negative(self) -> bool {
        self.nanos < 0
    }

    pub(crate) fn is_integer(self) -> bool {
        self.nanos % NANOS_PER_UNIT == 0
    }
}

/// The notation of a suffix, and what it multiplies with: a factor, and a power of ten.
fn unit(suffix: &str) -> Option<(Notation, i128, i32)> {
    if let Some(unit) = DECIMAL.iter().find(|unit| unit.suffix == suffix) {
        return Some((Notation::Decimal, 1, unit.exponent));
    }
    if let Some((_, bits)) = BINARY.iter().find(|(binary, _)| *binary == suffix) {
        return Some((Notation::Binary, 1 << bits, 0));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((Notation::Exponent, 1, exponent))
}

/// What is left over rounds up, as in Kubernetes.
fn times_ten_to(number: i128, exponent: i64) -> Option<i128> {
    if number == 0 {
        return Some(0);
    }
    let power =
        u32::try_from(exponent.unsigned_abs()).ok().and_then(|exponent| 10_i128.checked_pow(exponent));
    if exponent >= 0 {
        return number.checked_mul(power?);
    }
    // Whatever an i128 holds, divided by more than an i128 holds, is less than one billionth.
    Some(power.map_or(1, |power| divided_up(number, power)))
}

fn divided_up(number: i128, divisor: i128) -> i128 {
    number.div_euclid(divisor) + i128::from(number.rem_euclid(divisor) != 0)
}

/// Unreadable text counts as 0: the API server refuses it.
impl From<&resource::Quantity> for Quantity {
    fn from(quantity: &resource::Quantity) -> Self {
        Self::parse(&quantity.0).unwrap_or(Self { nanos: 0, notation: Notation::Decimal })
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.nanos.partial_cmp(&other.nanos)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return formatter.write_str("0");
        }
        if self.notation == Notation::Binary {
            let fits = |(_, bits): &&(&str, u32)| self.nanos % (NANOS_PER_UNIT << bits) == 0;
            if let Some((suffix, bits)) = BINARY.iter().find(fits) {
                return write!(formatter, "{}{suffix}", self.nanos / (NANOS_PER_UNIT << bits));
            }
        }
        for unit in &DECIMAL {
            let nanos_per_unit = 10_i128.pow((unit.exponent - NANO).unsigned_abs());
            if self.nanos % nanos_per_unit == 0 {
                let number = self.nanos / nanos_per_unit;
                return match self.notation {
                    Notation::Exponent if unit.exponent != 0 => {
                        write!(formatter, "{number}e{}", unit.exponent)
                    }
                    _ => write!(formatter, "{number}{}", unit.suffix),
                };
            }
        }
        Ok(())
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
    #[case("0.5Ki", "512")]
    #[case("1e3", "1e3")]
    #[case("12E6", "12e6")]
    #[case("100e1", "1e3")]
    #[case("5e-1", "500e-3")]
    #[case("2e0", "2")]
    #[case("0.1n", "1n")]
    #[case("1e-99", "1e-9")]
    #[case("-1", "-1")]
    #[case("+.5", "500m")]
    #[case("0", "0")]
    #[case("0e99", "0")]
    fn canonical_text(#[case] text: &str, #[case] canonical: &str) {
        assert_eq!(Quantity::parse(text).unwrap().to_string(), canonical);
    }

    #[rstest]
    #[case("two")]
    #[case("1x")]
    #[case("")]
    #[case(".")]
    #[case("-")]
    #[case("1.-5")]
    #[case("1.2.3")]
    #[case("1-2")]
    #[case("2K")]
    #[case("2e")]
    #[case(" 2")]
    #[case("1e99")]
    #[case("9e2147483648")]
    #[case("999999999999999999999999999999999999999999")]
    fn no_quantity(#[case] text: &str) {
        assert!(Quantity::parse(text).is_none());
    }

    #[rstest]
    #[case("2", 2, 2000)]
    #[case("500m", 1, 500)]
    #[case("1.5", 2, 1500)]
    #[case("2Ki", 2048, 2_048_000)]
    #[case("1e3", 1000, 1_000_000)]
    #[case("100n", 1, 1)]
    #[case("0", 0, 0)]
    #[case("1Ei", 1 << 60, -1)]
    fn counts_round_up(#[case] text: &str, #[case] units: i64, #[case] thousandths: i64) {
        let quantity = Quantity::parse(text).unwrap();
        // 1Ei has more thousandths than an i64 holds.
        let found = (quantity.units().unwrap(), quantity.thousandths().unwrap_or(-1));
        assert_eq!(found, (units, thousandths));
    }

    #[test]
    fn quantities_compare_by_amount() {
        let quantity = |text| Quantity::parse(text).unwrap();
        assert_eq!(quantity("1Ki"), quantity("1024"));
        assert!(quantity("1Gi") > quantity("1G"));
        assert!(quantity("-1").is_negative() && !quantity("0").is_negative());
        assert!(quantity("2000m").is_integer() && !quantity("1500m").is_integer());
    }
}
