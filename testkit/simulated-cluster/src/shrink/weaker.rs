//! Smaller forms of one event: a fault that lasts less long or comes less often, owners of fewer pods, pods of fewer containers. Asked by
//! the shrinker.

use serde_json::Value;

use crate::plan::{Event, What};

/// Numbers of events that may be smaller. The time of a rest is none of them: what is judged too soon after a fault is wrong for another
/// reason.
const NUMBERS: [&str; 5] = ["seconds", "milliseconds", "parallelism", "completions", "replicas"];
/// A number becomes 1, a tenth of it, or half of it.
const DIVIDED_BY: [i64; 3] = [i64::MAX, 10, 2];

/// Smaller forms of an event, the smallest of each kind first.
pub(super) fn weaker(event: &Event) -> Vec<Event> {
    let Ok(written) = serde_json::to_value(event) else { return Vec::new() };
    let mut all = Vec::new();
    if !matches!(event.what, What::Rest { .. }) {
        for number in NUMBERS {
            let before = written.get(number).and_then(Value::as_i64).unwrap_or_default();
            for divisor in DIVIDED_BY {
                let after = before.signum() * (before.abs() / divisor).max(1);
                all.extend(
                    (after.abs() < before.abs()).then(|| with(&written, &format!("/{number}"), after.into())),
                );
            }
        }
    }
    let rates = written.get("rates").and_then(Value::as_object).into_iter().flatten();
    for (rate, _) in rates.filter(|(_, value)| value.as_f64().is_some_and(|value| value > 0.0)) {
        all.push(with(&written, &format!("/rates/{rate}"), 0.0.into()));
    }
    let pods = written.get("pods").and_then(Value::as_array).map_or(0, Vec::len);
    let pods = (0..pods).map(|pod| format!("/pods/{pod}")).chain(["/pod".to_owned()]);
    for (kind, least) in [("initContainers", 0), ("containers", 1)] {
        for pod in pods.clone() {
            let pointer = format!("{pod}/spec/{kind}");
            let Some(containers) = written.pointer(&pointer).and_then(Value::as_array) else { continue };
            for container in (0..containers.len()).rev().filter(|_| containers.len() > least) {
                let mut fewer = containers.clone();
                fewer.remove(container);
                all.push(with(&written, &pointer, fewer.into()));
            }
        }
    }
    all.into_iter().filter_map(|written| serde_json::from_value(written).ok()).collect()
}

fn with(written: &Value, pointer: &str, value: Value) -> Value {
    let mut written = written.clone();
    if let Some(there) = written.pointer_mut(pointer) {
        *there = value;
    }
    written
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::ApiRates;

    #[test]
    fn numbers_rates_and_containers_become_fewer() {
        let all =
            |what| weaker(&Event { at: 5, what }).into_iter().map(|event| event.what).collect::<Vec<_>>();
        let down = |seconds| What::ApiDown { seconds };
        assert_eq!(all(down(60)), [down(1), down(6), down(30)]);
        assert_eq!(all(down(1)), []);
        assert_eq!(all(What::Rest { seconds: 900 }), [], "what is judged needs its time");
        let faults =
            |internal| What::ApiFaults { rates: ApiRates { internal, ..ApiRates::default() }, seconds: 1 };
        assert_eq!(all(faults(0.5)), [faults(0.0)]);
        let container = |name: &str| json!({"name": name});
        let made = |inits: Vec<Value>, apps: Vec<Value>| What::Create {
            pods: vec![json!({"spec": {"initContainers": inits, "containers": apps}})],
        };
        let (init, a, b) = (container("init"), container("a"), container("b"));
        assert_eq!(
            all(made(vec![init.clone()], vec![a.clone(), b.clone()])),
            [
                made(Vec::new(), vec![a.clone(), b.clone()]),
                made(vec![init.clone()], vec![a.clone()]),
                made(vec![init], vec![b])
            ]
        );
        assert_eq!(all(made(Vec::new(), vec![a])), [], "a pod has a container");
    }
}
