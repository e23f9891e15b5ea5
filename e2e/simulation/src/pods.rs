//! Pods of every shape that random scenarios have, too: one container or several, init containers and sidecars, devices, cores,
//! both or nothing.

use neuron_core::names::{DEVICE_MODEL, NEURONCORE};
use neuron_e2e_engine::fuzz::plan::PodPlan;
use neuron_e2e_engine::fuzz::shapes::{self, Counts};
use serde_json::{Value, json};
use simulated_cluster::plan::NodePlan;
use simulated_cluster::suite::Units;
use simulator::random::Rng;

use crate::device_models::{GENERATIONS, generation_of};
use crate::machine::Machine;
use crate::naive::{MOST_CONTAINERS, can_be_placed};

/// One pod in so many is drawn without a look at whether a node could run it.
const ANY: u8 = 30;
/// One pod in so many fails at its end.
const FAILS: u8 = 6;
/// Of pods that stay the containers of one in so many do not.
const STARTS_AGAIN: u8 = 3;
/// One pod in so many is restricted to device models.
const OF_A_MODEL: u8 = 12;
/// One of the pods drawn without a look has so many containers that none are placed.
const TOO_MANY: u8 = 40;
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
    } else if draws.u8(..TOO_MANY) == 0 {
        too_many_containers(&mut pod);
    }
    pod
}

/// Each of them asks for a core, which the next one is handed down.
fn too_many_containers(pod: &mut Value) {
    let container = |number| {
        json!({
            "name": format!("c{number}"), "image": "neuron-workload",
            "resources": {"limits": {NEURONCORE: "1"}, "requests": {NEURONCORE: "1"}},
        })
    };
    pod["spec"]["initContainers"] = (0..MOST_CONTAINERS).map(container).collect();
    pod["spec"]["containers"] = json!([container(MOST_CONTAINERS)]);
}

/// Models that a pod's author restricts it to: most often the node's own, now and then some that no node is of, or none that there is.
fn device_models(draws: &mut Rng, machine: &Machine) -> String {
    let own = &machine.model.name;
    let generations: Vec<&str> = GENERATIONS.iter().map(|(name, _)| *name).collect();
    let any = (*draws.choice(&generations).unwrap_or(&"Trainium")).to_owned();
    match draws.u8(..6) {
        0 | 1 => generation_of(own).unwrap_or_default().to_owned(),
        2 => own.clone(),
        3 => format!("{any},{own}"),
        4 => any,
        _ => format!("{any}-ultra"),
    }
}

fn any_pod(draws: &mut Rng, machine: &Machine, ends_after: Option<u32>) -> Value {
    let counts = Counts { devices: machine.device_counts(), cores: machine.core_counts() };
    let roles = shapes::roles(draws);
    let containers = shapes::containers(draws, roles, &counts);
    let plan = PodPlan { name: String::new(), containers, ends_after };
    let mut pod = plan.manifest();
    if draws.u8(..OF_A_MODEL) == 0 {
        pod["metadata"]["annotations"][DEVICE_MODEL] = device_models(draws, machine).into();
    }
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
