//! A panic in a task that nobody waits for, such as a call of kubelet's, ends the plugin with the reason.

use testkit_support::within;
use tracing::Subscriber;
use tracing::span::{Attributes, Id};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use crate::manual_kubelet::{registered, request};

/// Panics where this span begins.
struct PanicsAt(&'static str);

impl<S: Subscriber> Layer<S> for PanicsAt {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        assert!(attributes.metadata().name() != self.0, "{} broke", self.0);
    }
}

#[tokio::test]
async fn a_call_that_panics_ends_the_plugin_with_the_reason() {
    let (_node, kubelet, plugin) = registered("inf2.xlarge").await;
    let mut devices = kubelet.devices().await;
    // All of a test's tasks run on its own thread.
    let breaks = tracing_subscriber::registry().with(PanicsAt("Allocate"));
    let breaks = tracing::subscriber::set_default(breaks);
    within("the answer", devices.allocate(request(&["neuron0".to_owned()]))).await.unwrap_err();
    drop(breaks);
    let why = format!("{:#}", plugin.ended().await.unwrap_err());
    assert_eq!(why, "a part of the plugin ended: the task panicked: Allocate broke");
}
