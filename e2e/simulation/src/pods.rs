//! Pods of every shape that random scenarios have, too: one container or several, init containers and sidecars, devices, cores,
//! both or nothing.

use neuron_e2e_engine::fuzz::plan::PodPlan;
use neuron_e2e_engine::fuzz::shapes::{self, Counts};
use serde_json::{Value, json};
use simulated_cluster::plan::NodePlan;
use simulated_cluster::suite::Units;
use simulator::random::Rng;

use crate::machine::Machine;
use crate::naive::can_be_placed;

/// One pod in so many is drawn without a look at whether a node could run it.
const ANY: u8 = 30;
/// One pod in so many fails at its end.
const FAILS: u8 = 6;
/// Of pods that stay the containers of one in so many do not.
const STARTS_AGAIN: u8 = 3;
/// How often another one is drawn in place of one that no node could run.
const MOST_TRIED: usize = 5;

/// A pod that one of these nodes could run, but for a few.
pub(crate) fn pod(draws: &mut Rng, nodes: &[NodePlan], ends_after: Option<u32>) -> Value {
    let node = &nodes[draws.usize(..nodes.len())];
    let Ok(machine) = Machine::of(node) else { return json!({}) };
    let mut pod = any_pod(draws, &machine, ends_after);
    if draws.u8(..ANY) > 0 {
        let mut tried = 1;
        while tried < MOST_TRIED && can_be_placed(&machine, &pod, &Units::new()) == Some(false) {
            pod = any_pod(draws, &machine, ends_after);
            tried += 1;
        }
    }
    pod
}

fn any_pod(draws: &mut Rng, machine: &Machine, ends_after: Option<u32>) -> Value {
    let counts = Counts { devices: machine.device_counts(), cores: machine.core_counts() };
    let roles = shapes::roles(draws);
    let containers = shapes::containers(draws, roles, &counts);
    let plan = PodPlan { name: String::new(), containers, ends_after };
    let mut pod = plan.manifest();
    how_it_ends(draws, &mut pod, ends_after.is_some());
    for containers in ["/spec/initContainers", "/spec/containers"] {
        let all = pod.pointer_mut(containers).and_then(Value::as_array_mut).into_iter().flatten();
        all.for_each(with_quantities);
    }
    // What is to be handed down is held for a while now and then, so that something can go wrong meanwhile.
    let seconds = [0, 1, 15][draws.usize(..3)];
    let inits = pod.pointer_mut("/spec/initContainers").and_then(Value::as_array_mut).into_iter().flatten();
    for init in inits.filter(|init| init.get("restartPolicy").is_none()) {
        init["args"] = json!(["--for", format!("{seconds}s")]);
    }
    pod
}

/// One that ends by itself fails now and then; a container of one that stays may end and start again for ever.
fn how_it_ends(draws: &mut Rng, pod: &mut Value, ends: bool) {
    let fails = draws.u8(..FAILS) == 0;
    pod["spec"]["restartPolicy"] = if ends { "Never" } else { "Always" }.into();
    let again = draws.u8(..STARTS_AGAIN) == 0;
    let seconds = draws.u32(1..=300);
    let apps = pod.pointer_mut("/spec/containers").and_then(Value::as_array_mut).into_iter().flatten();
    for app in apps {
        let mut args: Vec<Value> = app.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
        if !ends && again {
            args.extend(["--for".into(), format!("{seconds}s").into()]);
        }
        if fails && (ends || again) {
            args.push("--exit=1".into());
        }
        app["args"] = args.into();
    }
}

/// As the API server keeps them: quantities are texts.
fn with_quantities(container: &mut Value) {
    let limits = container.pointer_mut("/resources/limits").and_then(Value::as_object_mut);
    for (_, quantity) in limits.into_iter().flatten() {
        *quantity = quantity.to_string().into();
    }
}
