//! `/healthz`: 200 while the plugin serves, 503 with the reasons while it does not; `/metrics` beside it. Started by `run`.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use runtime::{Protocol, Server, System};

use crate::allocation::engine::Engine;
use crate::hardware::health::Fault;
use crate::hardware::machine::Machine;
use crate::kubelet::service::listed;
use crate::metrics::{Metrics, Now};
use crate::resource::AdvertisedResource;
use crate::status::Status;

/// How long an open call may take once the plugin is to end. Both are answered at once.
const GRACE: Duration = Duration::from_secs(1);

/// What is shown.
#[derive(Clone)]
pub struct Shown {
    /// At `/healthz`.
    pub status: Arc<Status>,
    /// At `/metrics`.
    pub metrics: Arc<Metrics>,
    /// Knows what is now.
    pub engine: Arc<Engine>,
    /// What is advertised.
    pub resources: Vec<AdvertisedResource>,
}

/// Serves both.
pub fn server(system: System, shown: Shown) -> Server {
    let routes = Router::new()
        .route("/healthz", get(healthz).with_state(Arc::clone(&shown.status)))
        .route("/metrics", get(prometheus).with_state(shown));
    // Whoever reaches the port may ask, and need not mean well.
    Server::new(system, Protocol::Http1, routes, GRACE).exposed()
}

async fn healthz(State(status): State<Arc<Status>>) -> (StatusCode, String) {
    match status.text() {
        Ok(text) => (StatusCode::OK, text),
        Err(reasons) => (StatusCode::SERVICE_UNAVAILABLE, reasons),
    }
}

async fn prometheus(State(shown): State<Shown>) -> impl IntoResponse {
    runtime::metrics::answer(shown.metrics.text(&shown.now().await))
}

fn name_of_fault((device, fault): (&u8, &Fault)) -> (u8, &'static str) {
    (*device, fault.name())
}

impl Shown {
    async fn now(&self) -> Now {
        let checkpoint_age = self.engine.checkpoint.age().await;
        let machine = self.engine.machine();
        let ids = machine.iter().flat_map(|machine| {
            let count = |resource: &AdvertisedResource| {
                let withdrawn = self.engine.withdrawn_from(resource.name);
                (resource.name, listed(machine, resource.unit, withdrawn))
            };
            self.resources.iter().map(count)
        });
        let state = self.engine.state();
        Now {
            ids: ids.collect(),
            devices: machine.as_deref().map(Machine::count_by_health),
            faults: machine.iter().flat_map(|machine| machine.faults.iter()).map(name_of_fault).collect(),
            lnc: machine.as_ref().map(|machine| machine.topology.lnc()),
            unwritten: state.ledger.answers().len(),
            checkpoint_age,
            checkpoint_unreadable: state.checkpoint_problem.is_some(),
            report_age: state.reported_at.map(|at| at.elapsed()),
            failed_admissions: self.engine.pods.failed_admissions(),
        }
    }
}
