//! The Lease of the extenders as it stands at the API server: read, taken, renewed and given back. Called by the election.
//!
//! Every write names the version that it replaces, so that of two writers one fails, and a write that is carried out late does nothing.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};
use runtime::System;
use tokio::time::timeout;

use super::LeaderElection;

/// What stands as the duration of a Lease that was given back.
const GIVEN_BACK: Duration = Duration::from_secs(1);

/// The Lease at the API server.
pub(super) struct LeaseAtServer {
    system: System,
    api: Api<Lease>,
    name: String,
    identity: String,
    duration: Duration,
    timeout: Duration,
}

/// Why the Lease was not read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum LeaseError {
    /// It is not what was read any more: somebody has written or deleted it meanwhile.
    #[error("it was changed meanwhile")]
    Changed,
    /// There was no answer in time: what was sent may be carried out all the same.
    #[error("the API server did not answer within {0:?}")]
    NotAnswered(Duration),
    /// The API server refuses, or is not reached.
    #[error(transparent)]
    Failed(Box<kube::Error>),
}

/// Who holds the Lease.
pub(super) fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// How long it lasts, as is written there.
pub(super) fn duration(lease: &Lease) -> Duration {
    let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
    Duration::from_secs(seconds.try_into().unwrap_or_default())
}

/// Whether its last holder has given it back, as [`LeaseAtServer::give_back`] writes.
pub(super) fn is_given_back(lease: &Lease) -> bool {
    holder(lease).is_none() && duration(lease) == GIVEN_BACK
}

impl LeaseAtServer {
    pub(super) fn new(system: System, client: Client, election: &LeaderElection, identity: String) -> Self {
        Self {
            system,
            api: Api::namespaced(client, &election.namespace),
            name: election.lease.clone(),
            identity,
            duration: election.lease_duration,
            timeout: election.call_timeout(),
        }
    }

    /// The Lease; none if there is none.
    pub(super) async fn read(&self) -> Result<Option<Lease>, LeaseError> {
        self.answered(self.api.get_opt(&self.name)).await
    }

    /// Writes that this extender holds it from now on, in place of what was read; as a new one if there was none.
    pub(super) async fn hold(&self, before: Option<&Lease>) -> Result<Lease, LeaseError> {
        let now = self.now();
        let spec = before.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let is_renewed = spec.holder_identity.as_deref() == Some(&*self.identity);
        let changes = spec.lease_transitions.unwrap_or(-1);
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX).max(1)),
            acquire_time: if is_renewed { spec.acquire_time } else { now.clone() },
            renew_time: now,
            lease_transitions: Some(if is_renewed { changes } else { changes.saturating_add(1) }),
            ..spec
        };
        self.write(before, spec).await
    }

    /// Gives it back: the next one need not wait until it is over.
    pub(super) async fn give_back(&self, held: &Lease) -> Result<Lease, LeaseError> {
        let spec = held.spec.clone().unwrap_or_default();
        let spec = LeaseSpec {
            holder_identity: None,
            lease_duration_seconds: i32::try_from(GIVEN_BACK.as_secs()).ok(),
            renew_time: self.now(),
            ..spec
        };
        self.write(Some(held), spec).await
    }

    async fn write(&self, before: Option<&Lease>, spec: LeaseSpec) -> Result<Lease, LeaseError> {
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            resource_version: before.and_then(ResourceExt::resource_version),
            ..before.map(|lease| lease.metadata.clone()).unwrap_or_default()
        };
        let lease = Lease { metadata, spec: Some(spec) };
        let parameters = PostParams::default();
        match before {
            Some(_) => match self.answered(self.api.replace(&self.name, &parameters, &lease)).await {
                Err(LeaseError::Failed(error)) if matches!(&*error, kube::Error::Api(status) if status.code == 404) => {
                    Err(LeaseError::Changed)
                }
                answer => answer,
            },
            None => self.answered(self.api.create(&parameters, &lease)).await,
        }
    }

    async fn answered<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, LeaseError> {
        match timeout(self.timeout, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(LeaseError::Changed),
            Ok(Err(error)) => Err(LeaseError::Failed(Box::new(error))),
            Err(_) => Err(LeaseError::NotAnswered(self.timeout)),
        }
    }

    /// For people: nobody decides by it, as clocks differ. A clock beyond the year 9999 gives no time.
    fn now(&self) -> Option<MicroTime> {
        Timestamp::try_from(self.system.now()).ok().map(MicroTime)
    }
}
