//! The rules of a container's `resources`, in the API server's own words. Called by `pod`.

use serde_json::{Map, Value};

use crate::api::error::{ApiError, FieldError};
use crate::api::object::as_map;
use crate::quantity::Quantity;

/// Writes amounts in their canonical form and gives every limit without a request an equal request.
/// 400 for text that is no quantity.
pub(crate) fn complete(resources: &mut Value) -> Result<(), ApiError> {
    let resources = as_map(resources);
    for list in ["limits", "requests"] {
        for amount in
            resources.get_mut(list).and_then(Value::as_object_mut).into_iter().flatten().map(|(_, v)| v)
        {
            let quantity = amount.as_str().and_then(Quantity::parse).ok_or_else(|| {
                ApiError::bad_request(
                    "Pod in version \"v1\" cannot be handled as a Pod: quantities must match the regular expression \
                     '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
                )
            })?;
            *amount = quantity.to_string().into();
        }
    }
    if let Some(Value::Object(limits)) = resources.get("limits").cloned() {
        let requests = as_map(resources.entry("requests").or_insert(Value::Null));
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
    Ok(())
}

/// Every rule that a container's completed resources break. `field` is where they stand.
pub(crate) fn check(container: &Value, field: &str) -> Vec<FieldError> {
    let limits = amounts(container, "limits");
    let requests = amounts(container, "requests");
    let mut errors = Vec::new();
    for (name, limit) in &limits {
        check_amount(name, *limit, &format!("{field}.limits[{name}]"), &mut errors);
    }
    for (name, request) in &requests {
        check_amount(name, *request, &format!("{field}.requests[{name}]"), &mut errors);
        let limit = limits.iter().find(|(limited, _)| limited == name).map(|(_, limit)| *limit);
        let may_overcommit = !is_extended(name) && !name.starts_with("hugepages-");
        match limit {
            None if !may_overcommit => {
                let why = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(format!("{field}.limits"), why));
            }
            Some(limit) if !may_overcommit && *request != limit => {
                let why = format!("must be equal to {name} limit of {limit}");
                errors.push(FieldError::invalid(format!("{field}.requests"), quoted(*request), &why));
            }
            Some(limit) if *request > limit => {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                errors.push(FieldError::invalid(format!("{field}.requests"), quoted(*request), &why));
            }
            _ => {}
        }
    }
    errors
}

fn check_amount(name: &str, amount: Quantity, field: &str, errors: &mut Vec<FieldError>) {
    if amount.is_negative() {
        errors.push(FieldError::invalid(field, quoted(amount), "must be greater than or equal to 0"));
    }
    if is_extended(name) && !amount.is_integer() {
        errors.push(FieldError::invalid(field, quoted(amount), "must be an integer"));
    }
}

/// Resources outside Kubernetes' own domain: counted in whole, never overcommitted.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

fn amounts(container: &Value, list: &str) -> Vec<(String, Quantity)> {
    let amounts =
        container.get("resources").and_then(|resources| resources.get(list)).and_then(Value::as_object);
    amounts
        .into_iter()
        .flat_map(Map::iter)
        .filter_map(|(name, amount)| Some((name.clone(), Quantity::parse(amount.as_str()?)?)))
        .collect()
}

fn quoted(amount: Quantity) -> String {
    format!("\"{amount}\"")
}
