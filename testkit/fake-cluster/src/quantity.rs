//! Kubernetes quantities (`500m`, `2Gi`, `1e3`) as whole numbers, rounded up as the API does. Used by `amounts`.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The quantity in whole units (bytes, devices, pods). Unreadable text counts as 0: the API server refuses it.
pub(crate) fn units(quantity: &Quantity) -> i64 {
    scaled(&quantity.0, 1).unwrap_or(0)
}

/// The quantity in thousandths (millicores of cpu).
pub(crate) fn thousandths(quantity: &Quantity) -> i64 {
    scaled(&quantity.0, 1000).unwrap_or(0)
}

fn scaled(text: &str, scale: i128) -> Option<i64> {
    let text = text.trim();
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (multiplier, divisor) = factor(suffix)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let divisor = divisor.checked_mul(10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
    let product = digits.checked_mul(multiplier)?.checked_mul(scale)?;
    let rounded_up = product.div_euclid(divisor) + i128::from(product.rem_euclid(divisor) != 0);
    i64::try_from(rounded_up).ok()
}

fn factor(suffix: &str) -> Option<(i128, i128)> {
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let ten = 10i128.checked_pow(power.unsigned_abs())?;
            if power < 0 { (1, ten) } else { (ten, 1) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_the_api_reads_them() {
        for (text, whole, milli) in [
            ("2", 2, 2000),
            ("500m", 1, 500),
            ("1.5", 2, 1500),
            ("2Ki", 2048, 2_048_000),
            ("1e3", 1000, 1_000_000),
            ("100n", 1, 1),
            ("0", 0, 0),
        ] {
            let quantity = Quantity(text.into());
            assert_eq!((units(&quantity), thousandths(&quantity)), (whole, milli), "{text}");
        }
    }
}
